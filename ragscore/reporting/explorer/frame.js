// Beside the frame of a notebook output: hide the plain table, and pass the notebook's theme on.
(() => {
  const output = document.currentScript?.parentElement;
  const frame = output?.querySelector("iframe[data-ragscore]");
  if (!frame) return;
  const token = frame.dataset.ragscore;
  const theme = () => {
    const body = document.body, set = body.dataset.jpThemeLight;
    if (set !== undefined) return set === "true" ? "light" : "dark";
    if (body.classList.contains("vscode-light")) return "light";
    if (/\bvscode-(dark|high-contrast)\b/.test(body.className)) return "dark";
    return "auto";
  };
  const tell = () => frame.contentWindow?.postMessage({ ragscore: token, theme: theme() }, "*");
  addEventListener("message", (event) => {
    if (event.source !== frame.contentWindow || event.data?.ragscore !== token) return;
    if (!event.data.ready) return;
    const plain = output.querySelector(".rs-plain");
    if (plain) plain.hidden = true;
    tell();
  });
  new MutationObserver(tell).observe(document.body, {
    attributes: true, attributeFilter: ["class", "data-jp-theme-light"],
  });
})();
