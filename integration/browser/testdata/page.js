// What the tests ask of a page. Each function returns plain values.
(() => {
  const shown = node => node.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !node.closest("[aria-hidden=true]");
  const clean = text => (text || "").replace(/\s+/g, " ").trim();
  const describe = node => {
    const name = node.nodeName.toLowerCase() + (node.id ? "#" + node.id : "") + [...node.classList].map(c => "." + c).join("");
    return name + " “" + clean(node.textContent || node.getAttribute("aria-label") || node.getAttribute("name")).slice(0, 40) + "”";
  };
  const focusable = "a[href], button, input:not([type=hidden]), select, textarea, summary";

  // Addresses of all links that lead to this server.
  const links = () => [...document.links].map(link => link.href).filter(to => to.startsWith(location.origin));

  // What a press sends: the form and the button, without what differs from row to row.
  const buttons = () => [...document.querySelectorAll("button, input[type=submit]")].filter(shown).map(button => {
    if (!button.form) return clean("button " + Object.keys(button.dataset).join(" "));
    const field = name => { const found = button.form.elements[name]; return found && found.value ? " " + name + "=" + found.value : ""; };
    const kind = button.form.classList.contains("jobs") ? " selected" : button.form.elements.all ? " all" : "";
    const action = button.hasAttribute("formaction") ? button.formAction : button.form.action;
    return new URL(action).pathname + " " + button.form.method + (button.name ? " " + button.name + "=" + button.value : "") + field("in") + kind;
  });

  // Controls without a name for a screen reader. A placeholder is no name: it disappears.
  const unnamed = () => [...document.querySelectorAll(focusable + ", meter, progress, svg[role=img]")].filter(shown).filter(node => {
    const own = clean(node.getAttribute("aria-label")) || [...(node.labels || [])].some(label => clean(label.textContent) || label.querySelector("[aria-label]:not(input)"));
    return !own && !(node.matches("a, button, summary") && clean(node.textContent));
  }).map(describe);

  const parts = text => {
    const found = text.match(/^rgba?\(([^)]+)\)$/);
    if (!found) throw new Error("a colour that the test cannot read: " + text);
    const numbers = found[1].split(/[ ,/]+/).map(Number);
    return { rgb: numbers.slice(0, 3), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const over = (top, alpha, below) => top.map((value, i) => value * alpha + below[i] * (1 - alpha));
  const background = node => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.alpha > 0) layers.push(colour);
      if (colour.alpha === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer.rgb, layer.alpha, below), [255, 255, 255]);
  };
  const luminance = rgb => {
    const [r, g, b] = rgb.map(value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (node, pseudo) => {
    const below = background(node), ink = parts(getComputedStyle(node, pseudo).color);
    let alpha = ink.alpha;
    for (let at = node; at; at = at.parentElement) alpha *= Number(getComputedStyle(at).opacity);
    const [light, dark] = [luminance(over(ink.rgb, alpha, below)), luminance(below)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };

  // Texts with less contrast than asked for. A disabled control is exempt, as in WCAG.
  const pale = least => {
    const found = new Set();
    const look = (node, text, pseudo) => {
      if (!clean(text) || !shown(node) || node.closest(":disabled")) return;
      const have = ratio(node, pseudo);
      if (have < least) found.add(have.toFixed(2) + " " + (pseudo || "") + describe(node));
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text; (text = walker.nextNode());) look(text.parentElement, text.nodeValue);
    for (const input of document.querySelectorAll("input[placeholder]")) if (!input.value) look(input, input.placeholder, "::placeholder");
    for (const node of document.querySelectorAll("main *")) for (const pseudo of ["::before", "::after"]) {
      const content = getComputedStyle(node, pseudo).content;
      if (content !== "none" && content !== "normal") look(node, content.replace(/"/g, ""), pseudo);
    }
    return [...found];
  };

  // What reaches over the right edge of the window, if the page scrolls sideways.
  const wide = () => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    const over = [...document.querySelectorAll("body *")].filter(node => shown(node) && node.getBoundingClientRect().right > room + 1);
    return over.filter(node => !over.some(other => other !== node && node.contains(other))).map(describe).concat("the page is " + document.documentElement.scrollWidth + " wide in " + room);
  };

  // Elements that text is cut off in, without a sign that there is more; an ellipsis is one.
  const cut = () => [...document.querySelectorAll("button, .button, h1, h2, dt, dd, th, label")].filter(node => shown(node) && getComputedStyle(node).clipPath === "none")
    .filter(node => node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0 && getComputedStyle(node).overflowX !== "visible" && getComputedStyle(node).textOverflow !== "ellipsis").map(describe);

  // Cells and controls that reach out of the sheet or the window that they stand in, where a frame may cut them off.
  // A row of tabs or of the navigation scrolls by itself.
  const outside = () => {
    const found = new Set();
    for (const node of document.querySelectorAll("main td, main th, main td *, main button, main .button, main dd, main .tag")) {
      if (!shown(node) || getComputedStyle(node).clipPath !== "none") continue;
      const sheet = node.closest(".list, .stats, .panel, section") || document.body, box = node.getBoundingClientRect(), frame = sheet.getBoundingClientRect();
      // An element that ends in an ellipsis shows that there is more; so does what lies in it.
      if (node.parentElement.closest(".clip") || node.closest(".clip")) continue;
      if (box.width > 0 && (box.right > frame.right + 1.5 || box.left < frame.left - 1.5)) found.add(describe(node));
    }
    return [...found].slice(0, 6);
  };

  // Times and figures that stand on several lines, and words of a cell that are broken although they are short.
  const torn = () => {
    const found = new Set(), range = document.createRange();
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    for (let text; (text = walker.nextNode());) {
      if (!text.parentElement.closest("td:not(.args), th, dd, .tag, button") || !shown(text.parentElement)) continue;
      for (const word of text.nodeValue.matchAll(/[\p{L}\p{N}.,]+/gu)) {
        if (word[0].length > 14) continue;
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.add("“" + word[0] + "” in " + describe(text.parentElement));
      }
    }
    return [...found].slice(0, 6);
  };

  let focused = [];
  // expect remembers the controls that Tab should reach, and is how many they are.
  let expected = [];
  const expect = () => {
    focused = [];
    document.addEventListener("focusin", event => focused.push(event.target), true);
    expected = [...document.querySelectorAll(focusable)].filter(node => !node.disabled && node.tabIndex >= 0 && node.checkVisibility());
    return expected.length;
  };
  // way is what is wrong with the way that Tab took: a control that it missed, or one that stands above the one
  // before it in the same column.
  const way = () => {
    const wrong = expected.filter(node => node.isConnected && !focused.includes(node)).map(node => "Tab misses " + describe(node));
    const boxes = focused.map(node => node.getBoundingClientRect());
    for (let n = 2; n < boxes.length; n++) // from the second, because the link that skips is off the screen
      if (boxes[n].bottom <= boxes[n - 1].top && boxes[n].left < boxes[n - 1].right)
        wrong.push(describe(focused[n]) + " stands above " + describe(focused[n - 1]) + ", which has the focus before it");
    return wrong.slice(0, 10);
  };

  // The middle of an element that a user could press; an error says why there is none.
  const middle = node => {
    if (!node) throw new Error("there is no such element on " + location.href);
    node.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = node.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2, top = document.elementFromPoint(x, y);
    if (!shown(node) || !top || !(node.contains(top) || top.contains(node))) throw new Error(describe(node) + " cannot be pressed: over it is " + (top ? describe(top) : "nothing"));
    return [x, y];
  };
  window.testing = { links, buttons, unnamed, pale, wide, cut, outside, torn, expect, way, middle, clean };
  return true;
})()
