// Keeps a page up to date while it can be seen, and goes on with an action. Pages work without it.
"use strict";
(() => {
  const main = document.querySelector("main[data-live]");
  const state = document.getElementById("live-state");
  let source = null;
  // Each request with a password that was changed counts as a failed login.
  const retrySeconds = [10, 20, 40, 80, 160];
  let retries = 0;

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
    if (source || retries > retrySeconds.length) return;
    source = new EventSource(address());
    source.addEventListener("block", replace);
    source.addEventListener("up-to-date", () => {
      retries = 0;
      say("Up to date, looked at once a second.");
    });
    source.addEventListener("trouble", (event) => say(event.data));
    source.addEventListener("error", (event) => {
      if (event.target.readyState !== EventSource.CLOSED) {
        say("The connection is lost. Trying again.");
        return;
      }
      // The answer was no stream: too many pages are open, the server starts, or the account was changed. The browser does
      // not ask again then.
      if (event.target === source) close();
      const seconds = retrySeconds[retries++];
      if (!seconds) {
        say("Not kept up to date. Reload the page.");
        return;
      }
      say(`Not kept up to date. Trying again in ${seconds} seconds.`);
      setTimeout(() => { if (!document.hidden) open(); }, seconds * 1000);
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
