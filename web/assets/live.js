// live.js keeps a page fresh: it fetches the page again and changes the parts marked data-fresh in place, so that
// the focus, the selection, checked boxes and open details stay. Without it a page works, and is refreshed by hand.
(() => {
  "use strict";
  const body = document.body;
  let every = Number(body.dataset.live || 0) * 1000;
  const live = document.getElementById("live");
  const pause = document.querySelector("[data-pause]");
  let paused = false, failures = 0, timer = 0;

  // Times are UTC in the markup, and local on the screen.
  const full = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZoneName: "short" };
  const localize = root => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.getAttribute("datetime"));
      if (isNaN(at)) continue;
      if (time.dataset.text === "time") time.textContent = at.toLocaleTimeString(undefined, { hour12: false });
      else if (time.dataset.text !== undefined) time.textContent = at.toLocaleString(undefined, full);
      time.title = at.toLocaleString(undefined, full);
    }
  };

  // morph makes the node old like fresh, keeping every node that can stay. A row is known by its key alone, which
  // tells the job: a box that was checked for one job never stands for another, and a new row is not checked.
  const keyOf = node => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const morph = (old, fresh) => {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    const own = name => name === "open" || name === "checked" || name === "hidden";
    for (const { name, value } of [...fresh.attributes])
      if (!own(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes])
      if (!own(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    if (old.hasAttribute("data-rate")) return; // plots.js writes it
    // Copies of a job in a queue have one key, and keep their order.
    const keyed = new Map(), nameOf = node => node.nodeName + keyOf(node);
    for (const child of old.children) if (keyOf(child)) keyed.set(nameOf(child), [...keyed.get(nameOf(child)) || [], child]);
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      let match = keyOf(next) ? keyed.get(nameOf(next))?.shift() : at && !keyOf(at) && alike(at, next) ? at : null;
      if (!match) { old.insertBefore(next, at); continue; }
      if (match === at) at = at.nextSibling; else old.insertBefore(match, at);
      morph(match, next);
    }
    while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
  };

  const state = (kind, text) => {
    if (!live) return;
    live.className = "live " + kind;
    live.querySelector("span").textContent = text;
  };

  const refresh = async () => {
    const response = await fetch(body.dataset.self || location.href, { headers: { "X-Belay-Refresh": "1" }, signal: AbortSignal.timeout(15000) });
    if (!response.ok) throw new Error("status " + response.status);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    localize(fresh);
    for (const part of document.querySelectorAll("[data-fresh][id]")) {
      const next = fresh.getElementById(part.id);
      if (next && next.nodeName === part.nodeName) morph(part, next);
      else if (next) part.replaceWith(next);
      else if (!part.closest("form")) part.replaceChildren();
    }
    document.dispatchEvent(new Event("belay:fresh"));
    count();
  };

  const loop = async () => {
    clearTimeout(timer);
    if (!every || paused || document.hidden) return;
    try {
      await refresh();
      failures = 0;
      state("on", "Live");
    } catch {
      failures++;
      state("lost", "Not connected");
    }
    timer = setTimeout(loop, Math.min(every * 2 ** failures, 30000));
  };

  // Selection: the head of the list checks all of it, and buttons say how many jobs they act on.
  const count = () => {
    for (const form of document.querySelectorAll("form.jobs")) {
      const boxes = [...form.querySelectorAll("input[name=ref]")], checked = boxes.filter(box => box.checked).length;
      const all = form.querySelector("[data-check-all]");
      if (all) { all.hidden = false; all.checked = checked > 0; all.indeterminate = checked > 0 && checked < boxes.length; }
      for (const button of form.querySelectorAll("[data-selected]")) {
        button.disabled = checked === 0;
        button.textContent = button.textContent.replace(/ (selected|\d[\d,]*)$/, checked ? " " + checked : " selected");
      }
    }
  };
  document.addEventListener("change", event => {
    if (event.target.matches("[data-check-all]"))
      for (const box of event.target.form.querySelectorAll("input[name=ref]")) box.checked = event.target.checked;
    count();
  });

  document.addEventListener("click", event => {
    const button = event.target.closest("button[data-ask]");
    if (!button) return;
    const checked = button.form.querySelectorAll("input[name=ref]:checked").length;
    const jobs = checked === 1 ? "the selected job" : checked.toLocaleString("en") + " selected jobs";
    if (!confirm(button.dataset.ask.replace("the selected jobs", jobs))) event.preventDefault();
  });

  // Copying needs a script, and navigator.clipboard a page over HTTPS or of this machine.
  const copiers = () => { for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false; };
  const copy = async node => {
    if (navigator.clipboard) return navigator.clipboard.writeText(node.textContent);
    getSelection().selectAllChildren(node);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  };
  document.addEventListener("click", async event => {
    const button = event.target.closest("[data-copy]"), node = button && document.getElementById(button.dataset.copy);
    if (!node) return;
    try { await copy(node); button.textContent = "Copied"; } catch { button.textContent = "Not copied"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  document.addEventListener("belay:fresh", copiers);
  copiers();

  // A slash leads to the search, as on many sites.
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    document.getElementById("jid").focus();
  });

  // A search goes on at once, page by page, and keeps the answer of an act that led to it.
  const searchOn = async form => {
    while (form) {
      const next = form.action + "?" + new URLSearchParams(new FormData(form));
      const response = await fetch(next, { signal: AbortSignal.timeout(15000) });
      if (!response.ok) return;
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      localize(fresh);
      const flash = document.getElementById("flash");
      if (flash && !fresh.getElementById("flash")) fresh.querySelector("#main .top").after(flash.cloneNode(true));
      morph(document.getElementById("main"), fresh.getElementById("main"));
      body.dataset.self = fresh.body.dataset.self || next;
      every = Number(fresh.body.dataset.live || 0) * 1000;
      count();
      begin();
      form = document.querySelector("form[data-continue][method=get]");
    }
  };
  const more = document.querySelector("form[data-continue]");
  if (more && more.method === "get") searchOn(more).catch(() => {});
  // The next step of an act on many jobs. The pause lets a reader press "Stop here".
  else if (more) setTimeout(() => more.requestSubmit(), 250);

  localize(document);
  count();
  const current = document.querySelector("#nav [aria-current]");
  // Only the row of the navigation: scrollIntoView would scroll the page sideways too.
  const row = current && current.closest("nav");
  if (row) row.scrollLeft += current.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - current.offsetWidth) / 2;
  const begin = () => {
    if (!every || !live || !live.hidden) return;
    live.hidden = false;
    state("on", "Live");
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      state(paused ? "off" : "on", paused ? "Paused" : "Live");
      loop();
    });
    document.addEventListener("visibilitychange", loop);
    timer = setTimeout(loop, every);
  };
  begin();
})();
