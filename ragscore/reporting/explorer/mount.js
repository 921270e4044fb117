// Start every explorer of the page. In a notebook's frame (link "message") the parent is told which
// query is open, and may send the notebook's theme.
for (const root of document.querySelectorAll(".rs-explorer:not([data-started])")) {
  root.dataset.started = "";
  const options = JSON.parse(root.dataset.options);
  const packed = root.querySelector('script[type="text/plain"]').textContent;
  const inFrame = options.link === "message";
  // The parent's origin is unknown in a sandbox, and what is told are ids that it has itself.
  const tell = (message) => parent.postMessage({ ragscore: root.id, ...message }, "*");
  if (inFrame) options.select = (state) => tell({ state });
  const plain = root.querySelector(".rs-plain");
  ragscoreExplorer.unpack(packed).then((data) => {
    root.replaceChildren();
    const view = ragscoreExplorer.boot(root, data, options);
    if (!inFrame) return;
    addEventListener("message", (event) => {
      if (event.source !== parent || event.data?.ragscore !== root.id) return;
      if (event.data.theme) view.theme(event.data.theme);
    });
    tell({ ready: true });
  }).catch((error) => {
    const note = document.createElement("p");
    note.textContent = `The explorer could not start (${error}).`;
    root.replaceChildren(note, ...(plain ? [plain] : []));
  });
}
