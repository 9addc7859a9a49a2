// theme.js runs before the page is drawn: a page of the wrong theme would flash.
(() => {
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  const read = () => { try { return localStorage.getItem("belay-theme") || "auto"; } catch { return "auto"; } };
  const apply = theme => { if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme; };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    const label = () => { button.textContent = "Theme: " + read(); };
    button.hidden = false;
    label();
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(read()) + 1) % order.length];
      try { localStorage.setItem("belay-theme", next); } catch { /* private mode: only for this page */ }
      apply(next);
      label();
      document.dispatchEvent(new Event("belay:theme"));
    });
  });
})();
