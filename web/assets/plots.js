// plots.js draws the plots of the overview from series.json, in the colours of belay.css.
(() => {
  "use strict";
  if (!window.uPlot) return;
  const plots = new Map();
  // The section comes with the first job, if the page was opened before it.
  let section = null, data = null;

  // A colour of the theme stands in light-dark(); only a real element has its value.
  const probe = document.createElement("i");
  probe.hidden = true;
  const ink = name => { probe.className = "ink-" + name; return getComputedStyle(probe).color; };
  const font = '12px Inter, system-ui, sans-serif';

  const figure = n => n == null ? "–" : n >= 100 ? Math.round(n).toLocaleString("en") : String(Math.round(n * 10) / 10);
  // As the tables write durations.
  const seconds = s => {
    if (s == null) return "–";
    if (s < 60) return s === 0 ? "0" : s < 1 ? Math.round(s * 1000) + "ms" : (s < 10 ? Math.round(s * 10) / 10 : Math.floor(s)) + "s";
    const [unit, name, part, rest] = s < 3600 ? [60, "m", 1, "s"] : s < 86400 ? [3600, "h", 60, "m"] : [86400, "d", 3600, "h"];
    const parts = Math.floor(s % unit / part);
    return Math.floor(s / unit) + name + (parts ? " " + parts + rest : "");
  };
  // The same words under an axis and in a legend. exact is false where the axis has no seconds.
  const instant = (t, days, exact) => days ? new Date(t * 1000).toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" }) :
    new Date(t * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: exact ? "2-digit" : undefined, hour12: false });

  // Steps of an axis: of counts, and of seconds.
  const whole = [1, 10, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap(n => [n, 2 * n, 5 * n]);
  const spans = [0.01, 0.1, 1].flatMap(n => [n, 2 * n, 5 * n]).concat(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200,
    [1, 2, 5, 10, 20, 50, 100].map(n => n * 86400)).flat();

  const lines = list => ({ values: list.map(q => q.values), names: list.map(q => q.name), inks: list.map(q => "q" + q.ink) });
  const kinds = {
    throughput: data => ({ unit: v => v == null || data.days ? figure(v) : figure(v) + "/s", values: [data.processed, data.failed].map(list => data.days ? list.map(n => n || null) : list), names: ["processed", "failed"], inks: ["processed", "failed"] }),
    size: data => ({ unit: figure, steps: whole, ...lines(data.sizes) }),
    latency: data => ({ unit: seconds, steps: spans, ...lines(data.latencies) }),
  };

  const options = (kind, width, data) => {
    const axis = { stroke: ink("dim"), font, grid: { stroke: ink("line"), width: 1 }, ticks: { show: false } };
    return {
      width, height: kind.name === "throughput" ? 220 : 180, padding: [10, 28, 0, 0],
      cursor: { points: { size: 7 }, sync: { key: "belay" } }, legend: { live: true },
      // At least a minute; of one sample alone, uPlot makes three years.
      scales: { x: { range: (_, low, high) => data.days ? [low - 43200, high + 43200] :
        data.at.length === 1 ? [data.at[0] - 60, data.at[0]] : [Math.min(low, high - 60), high] }, y: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] } },
      axes: [{ ...axis, grid: { show: false }, space: 90, size: 28,
        // Not at the left end, where the label would lie under those of the other axis.
        values: (plot, at, _axis, _space, step) => at.map(t => plot.valToPos(t, "x") < 20 ? null : instant(t, data.days, step < 60)) },
        { ...axis, size: 64, incrs: kind.steps || undefined, values: (_, all) => all.map(kind.unit) }],
      series: [{ label: data.days ? "Day" : "Time", value: (_, t) => t == null ? "–" : instant(t, data.days, true) },
        ...kind.names.map((label, i) => ({
          label, stroke: ink(kind.inks[i]), width: 2, paths: data.days ? uPlot.paths.bars({ size: [0.7, 40], radius: 0.15 }) : undefined, spanGaps: false, points: { show: false },
          fill: data.days ? ink(kind.inks[i]) : kind.names.length === 2 && i === 0 ? ink(kind.inks[i]).replace("rgb(", "rgba(").replace(")", ", 0.09)") : undefined,
          value: (_, v) => kind.unit(v),
        }))],
    };
  };

  const draw = () => {
    if (!data) return;
    for (const figure of section.querySelectorAll("[data-plot]")) {
      const name = figure.dataset.plot, kind = { name, ...kinds[name](data) };
      const shape = kind.names.join("\n") + "|" + kind.inks.join() + "|" + figure.clientWidth + "|" + (document.documentElement.dataset.theme || "") + matchMedia("(prefers-color-scheme: dark)").matches;
      const known = plots.get(name), values = [data.at, ...kind.values];
      figure.classList.toggle("few", data.at.length < (name === "throughput" ? 3 : 2)); // the first sample has no rate
      let plot = known && known.plot;
      if (known && known.shape === shape) plot.setData(values);
      else {
        if (known) plot.destroy();
        plots.set(name, { shape, plot: plot = new uPlot(options(kind, figure.clientWidth, data), values, figure) });
      }
      // Without a pointer over it, the legend has the youngest values.
      if (data.at.length) setTimeout(() => { if (plot.cursor.left < 0) plot.setLegend({ idx: data.at.length - 1 }); });
    }
    const last = data.at.length - 1;
    for (const place of document.querySelectorAll("[data-rate]")) {
      const value = last < 0 || data.days ? null : data[place.dataset.rate][last];
      place.textContent = value == null ? "" : figure(value) + "/s";
    }
  };

  const load = async () => {
    section = document.querySelector("[data-plots]");
    if (!section) return;
    section.append(probe);
    try {
      const response = await fetch(section.dataset.plots, { signal: AbortSignal.timeout(10000) });
      if (response.ok) { data = await response.json(); draw(); }
    } catch { /* live.js shows that the server is away */ }
  };

  document.addEventListener("belay:fresh", load);
  document.addEventListener("belay:theme", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  load();
})();
