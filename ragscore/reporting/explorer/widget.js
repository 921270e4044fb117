// A widget without a view: it passes what is selected in the frame of this name on to Python.
// Only messages from such a frame count, whatever they say of themselves.
export default {
  initialize({ model }) {
    const name = model.get("name");
    const frames = () => [...document.querySelectorAll(`iframe[data-ragscore="${name}"]`)];
    const listen = (event) => {
      if (event.data?.ragscore !== name || typeof event.data.state !== "object") return;
      if (!frames().some((frame) => frame.contentWindow === event.source)) return;
      model.set("state", event.data.state);
      model.save_changes();
    };
    addEventListener("message", listen);
    return () => removeEventListener("message", listen);
  },
};
