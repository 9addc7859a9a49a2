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

  // morph makes the node old like fresh, keeping every node that can stay. A row is known by its key alone,
  // which tells the job: a box that was checked for one job never stands for another, and a new row is not
  // checked. What has data-keep is added and then left alone: a form that a user types in, the plots that a
  // script draws, and what only a page that a user opens has.
  const keyOf = node => node.nodeType === 1 ? node.id || node.dataset.key || "" : "";
  const nameOf = node => node.nodeName + keyOf(node);
  const keeps = node => node.hasAttribute("data-keep");
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
    if (keeps(old) || old.hasAttribute("data-rate")) return; // plots.js writes the rates
    // Rows that are gone leave first. Otherwise each row below them would be moved up, and a node that is moved
    // loses the focus and the selection. Copies of a job in a queue have one key, and keep their order.
    const wanted = new Map(), keyed = new Map(), kept = new Set();
    for (const child of fresh.children) if (keyOf(child)) wanted.set(nameOf(child), (wanted.get(nameOf(child)) || 0) + 1);
    for (const child of [...old.children]) {
      if (!keyOf(child)) continue;
      const name = nameOf(child), stays = keyed.get(name) || [];
      if (stays.length < (wanted.get(name) || 0)) keyed.set(name, [...stays, child]);
      else if (keeps(child)) kept.add(child);
      else child.remove();
    }
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      // A row that left has left the space before it.
      while (at && (kept.has(at) || keyOf(next) && at.nodeType !== 1)) { const space = at; at = at.nextSibling; if (!kept.has(space)) space.remove(); }
      const match = keyOf(next) ? keyed.get(nameOf(next))?.shift() : at && !keyOf(at) && alike(at, next) ? at : null;
      if (!match) { old.insertBefore(next, at); continue; }
      if (match === at) at = at.nextSibling;
      else if (old.moveBefore) old.moveBefore(match, at); // it keeps the focus, and not every browser has it yet
      else old.insertBefore(match, at);
      morph(match, next);
    }
    while (at) { const gone = at; at = at.nextSibling; if (!kept.has(gone)) gone.remove(); }
  };

  // morphMain makes the content of the page like that of a fresh one. The answer of an act stays.
  const morphMain = fresh => {
    const flash = document.getElementById("flash");
    if (flash && !fresh.getElementById("flash")) fresh.querySelector("#main .top").after(flash.cloneNode(true));
    morph(document.getElementById("main"), fresh.getElementById("main"));
  };

  const state = (kind, text) => {
    if (!live) return;
    live.className = "live " + kind;
    live.querySelector("span").textContent = text;
  };

  // A Gone is the error of a page about what does not exist any more.
  class Gone extends Error {}
  const read = async headers => {
    const response = await fetch(body.dataset.self || location.href, { headers, signal: AbortSignal.timeout(15000) });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html"), text = fresh.querySelector("#main .big");
    if (response.status === 404 && text) throw new Gone(text.textContent); // that of a proxy has no such text
    if (!response.ok || !fresh.getElementById("main")) throw new Error("status " + response.status);
    localize(fresh);
    return fresh;
  };

  // Where a list begins or ends, a notice, a filter or a pager comes or goes beside the fresh parts: then the
  // whole content is made like the fresh one. What only a page that a user opens has is read once, when its
  // place appears.
  const parts = root => [...root.querySelectorAll("[data-fresh][id]")];
  const shape = root => parts(root).map(nameOf).join("\n");
  const refresh = async () => {
    let fresh = await read({ "X-Belay-Refresh": "1" });
    if (shape(fresh) === shape(document)) {
      for (const part of parts(document)) morph(part, fresh.getElementById(part.id));
    } else {
      if ([...fresh.querySelectorAll("[data-keep][id]")].some(part => !document.getElementById(part.id))) fresh = await read({});
      morph(document.getElementById("nav"), fresh.getElementById("nav"));
      morphMain(fresh);
    }
    document.dispatchEvent(new Event("belay:fresh"));
    count();
  };

  const gone = text => {
    every = 0;
    state("lost", "Gone");
    pause.disabled = true;
    const note = document.createElement("div");
    note.className = "note bad";
    note.id = "gone";
    note.setAttribute("role", "status");
    note.textContent = text + " Below is what was known of it last.";
    document.querySelector("#main .top").after(note);
  };

  const loop = async () => {
    clearTimeout(timer);
    if (!every || paused || document.hidden) return;
    try {
      await refresh();
      failures = 0;
      state("on", "Live");
    } catch (error) {
      if (error instanceof Gone) return gone(error.message);
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
      morphMain(fresh);
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
