// Keeps a page up to date while it can be seen, and goes on with an action. Pages work without it.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  const state = document.getElementById("live-state");
  let source = null;
  const retryMs = 10000;

  const say = (text) => {
    if (state && state.textContent !== text) state.textContent = text;
  };

  const replace = (event) => {
    const { id, html } = JSON.parse(event.data);
    const block = document.getElementById(id);
    if (!block) return;
    // The server has escaped all that is not its own.
    block.innerHTML = html;
  };

  const address = () => {
    const url = new URL(location.href);
    if (main.dataset.seen) url.searchParams.set("seen", main.dataset.seen);
    return url.pathname + url.search;
  };

  const open = () => {
    if (source) return;
    source = new EventSource(address());
    source.addEventListener("block", replace);
    source.addEventListener("up-to-date", () => say("Up to date, looked at once a second."));
    source.addEventListener("trouble", (event) => say(event.data));
    source.addEventListener("error", (event) => {
      if (event.target.readyState !== EventSource.CLOSED) {
        say("The connection is lost. Trying again.");
        return;
      }
      // The answer was no stream: too many pages are open, or the server starts. The browser does not ask again then.
      if (event.target === source) close();
      say("Not kept up to date. Trying again in 10 seconds.");
      setTimeout(() => { if (!document.hidden) open(); }, retryMs);
    });
  };

  const close = () => {
    if (source) source.close();
    source = null;
  };

  if (main) {
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    if (!document.hidden) open();
  }

  const action = document.querySelector("form[data-continue-ms]");
  if (action) setTimeout(() => action.requestSubmit(), Number(action.dataset.continueMs));
})();
