// Start every explorer of the page. In a notebook's frame (link "message") each change of selection
// goes to the parent, and the parent may send the notebook's theme or a state to show.
for (const root of document.querySelectorAll(".rs-explorer:not([data-started])")) {
  root.dataset.started = "";
  const options = JSON.parse(root.dataset.options);
  const packed = root.querySelector('script[type="text/plain"]').textContent;
  const inFrame = options.link === "message";
  let view = null, theme = options.theme;
  if (inFrame) {
    // The parent's origin is unknown in a sandbox, and what is told are ids that it has itself.
    options.select = (state) => parent.postMessage({ ragscore: root.id, state }, "*");
    addEventListener("message", (event) => {
      if (event.source !== parent || event.data?.ragscore !== root.id) return;
      if (event.data.theme) theme = event.data.theme;
      if (view && event.data.theme) view.theme(theme);
      if (view && event.data.show) view.show(event.data.show);
    });
  }
  const plain = root.querySelector(".rs-plain");
  ragscoreExplorer.unpack(packed).then((data) => {
    root.replaceChildren();
    view = ragscoreExplorer.boot(root, data, { ...options, theme });
    if (inFrame) parent.postMessage({ ragscore: root.id, ready: true }, "*");
  }).catch((error) => {
    const note = document.createElement("p");
    note.textContent = `The explorer could not start (${error}).`;
    root.replaceChildren(note, ...(plain ? [plain] : []));
  });
}
