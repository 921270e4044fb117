"use strict";
// Lists the queries; stands in until the explorer itself is here.
const ragscoreExplorer = (() => {
  async function unpack(base64) {
    const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  function boot(root, data, options) {
    let now = { query: null, outcome: null, search: "", run: null, hit: null, ...options.state };
    const list = root.appendChild(document.createElement("ul"));
    for (const id of data.queries.id) {
      const button = list.appendChild(document.createElement("li")).appendChild(
        document.createElement("button"));
      button.textContent = id;
      button.addEventListener("click", () => show({ query: id }));
    }
    function show(state) {
      now = { ...now, ...state };
      if (options.select) options.select(now);
    }
    return { show, state: () => now, resize() {}, theme(name) { root.dataset.theme = name; } };
  }
  return { boot, unpack };
})();
