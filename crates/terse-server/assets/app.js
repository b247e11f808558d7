// The dashboard: shortcuts, charts, live clicks, a check of aliases, QR codes, the list of links and imports. The pages work without this script.
"use strict";

// An account can turn off shortcuts of a single character: people who use speech input press them by accident.
const shortcuts = "shortcuts" in document.body.dataset;

// Says something to screen readers.
const spoken = document.querySelector("[data-status]");

function isTyping(element) {
  return element.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/" && shortcuts) {
    event.preventDefault();
    document.getElementById("q").select();
    document.getElementById("q").focus();
  } else if (event.key === "n" && shortcuts) {
    event.preventDefault();
    document.querySelector("[data-new]").click();
  } else if (event.key === "?" && shortcuts) {
    event.preventDefault();
    document.getElementById("keys-help").showModal();
  } else if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details[data-menu][open]")) {
      // What has the focus goes away with the menu.
      if (open.contains(document.activeElement)) open.querySelector("summary").focus();
      open.open = false;
    }
  }
});

// A menu closes when something else is pressed.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details[data-menu][open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

// Charts: the pointer or the arrow keys show a value. The table below the chart has the data.
for (const chart of document.querySelectorAll("[data-chart]")) {
  const plot = chart.querySelector(".chart-plot");
  const rows = [...chart.nextElementSibling.querySelectorAll("tbody tr")];
  if (rows.length < 2) continue;
  const make = (name, parent) => {
    const element = document.createElement("div");
    element.className = name;
    parent.append(element);
    return element;
  };
  const cursor = make("chart-cursor", plot);
  const dot = make("chart-dot", cursor);
  const tip = make("chart-tip", cursor);
  tip.setAttribute("aria-live", "polite");
  cursor.hidden = true;
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-label", "Chart: left and right arrow keys show values");
  let place = rows.length - 1;
  const show = (wanted) => {
    place = Math.max(0, Math.min(rows.length - 1, wanted));
    const [label, value, before] = [...rows[place].cells].map((cell) => cell.textContent);
    const share = place / (rows.length - 1);
    cursor.hidden = false;
    cursor.style.left = `${share * 100}%`;
    cursor.classList.toggle("left", share > 0.6);
    dot.style.top = `${rows[place].dataset.y}px`;
    const strong = document.createElement("b");
    strong.textContent = value === "1" ? "1 click" : `${value} clicks`;
    tip.replaceChildren(strong, before ? `${label} · ${before} before` : label);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    show(Math.round((event.clientX - box.left) / box.width * (rows.length - 1)));
  });
  plot.addEventListener("pointerleave", () => { cursor.hidden = document.activeElement !== plot; });
  plot.addEventListener("focus", () => show(place));
  plot.addEventListener("blur", () => { cursor.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") cursor.hidden = true; });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(place + step);
  });
}

// Live clicks: rows are added as the server sends them.
const live = document.querySelector("[data-live]");
if (live) {
  const status = document.querySelector("[data-live-status]");
  const kinds = {
    crawler: "crawlers", preview: "previews", ai: "AI crawlers", monitor: "monitors", tool: "tools",
    nameless: "without a name", prefetch: "prefetches", head: "HEAD requests",
  };
  // Times and countries are written as in the rows that the server has written.
  const format = (parts) => {
    try {
      return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: live.dataset.zone });
    } catch {
      // This browser does not know the zone.
      return new Intl.DateTimeFormat("en-GB", parts);
    }
  };
  const clock = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const exact = format({ day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
  const countries = new Map(live.dataset.countries.split("|").map((one) => [one.slice(0, 2), one.slice(3)]));
  // While paused, new clicks wait: the latest of them.
  const pause = document.querySelector("[data-live-pause]");
  let paused = false;
  let waiting = [];
  let state = "Connecting…";
  const say = () => {
    const count = waiting.length === 100 ? "100 or more new clicks wait" : waiting.length === 1 ? "1 new click waits" : `${waiting.length} new clicks wait`;
    status.textContent = paused ? `Paused: ${count}.` : state;
  };
  const source = new EventSource(live.dataset.live);
  source.addEventListener("open", () => { state = "Live: new clicks appear by themselves."; say(); });
  source.addEventListener("error", () => { state = "Connecting again…"; say(); });
  source.addEventListener("click", (event) => {
    if (!paused) return add(JSON.parse(event.data));
    waiting = [...waiting.slice(-99), JSON.parse(event.data)];
    say();
  });
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) waiting.splice(0).forEach(add);
    say();
  });
  const add = (click) => {
    const row = live.insertRow(0);
    row.className = "new";
    const cell = (text) => { row.insertCell().textContent = text; };
    const client = [click.browser, click.operating_system].filter(Boolean).join(" on ");
    const [at, time] = [new Date(click.at), document.createElement("time")];
    [time.dateTime, time.textContent, time.title] = [click.at, clock.format(at), exact.format(at)];
    row.insertCell().append(time);
    cell([click.city || countries.get(click.country) || click.country, client].filter(Boolean).join(", ") || "nothing else is known");
    if (click.own) {
      const own = document.createElement("span");
      [own.className, own.textContent] = ["pill own", "you"];
      row.lastChild.append(" ", own);
    }
    cell(click.referrer || "direct");
    cell(click.repeat ? "repeat" : "human");
    if (click.bot) {
      const pill = document.createElement("span");
      [pill.className, pill.textContent] = ["pill over", `bot: ${kinds[click.bot] || click.bot}`];
      row.lastChild.replaceChildren(pill);
    }
    while (live.rows.length > 100) live.deleteRow(-1);
    live.closest("table").classList.remove("gone");
    document.querySelector("[data-live-empty]").classList.add("gone");
  };
}

// The alias of a new link: says whether it is free while it is typed.
const alias = document.querySelector("[data-alias]");
if (alias) {
  const hint = document.querySelector("[data-alias-hint]");
  const usual = hint.textContent;
  const domain = document.getElementById("domain");
  let asked = 0;
  const check = async () => {
    const turn = ++asked;
    let [words, taken] = [usual, false];
    if (alias.value.trim()) {
      await new Promise((done) => { setTimeout(done, 200); });
      if (turn !== asked) return;
      const query = new URLSearchParams({ alias: alias.value, domain: domain ? domain.value : "" });
      try {
        const answer = await fetch(`${alias.dataset.alias}?${query}`);
        if (!answer.redirected && (answer.status === 200 || answer.status === 409)) {
          [words, taken] = [await answer.text(), answer.status === 409];
        }
      } catch {
        // Without an answer, creating the link says whether the alias is taken.
      }
    }
    if (turn !== asked) return;
    hint.textContent = words;
    hint.classList.toggle("taken", taken);
  };
  alias.addEventListener("input", check);
  if (domain) {
    const prefix = document.querySelector("[data-alias-prefix]");
    const showPrefix = () => { prefix.textContent = `${domain.value}/`; };
    domain.addEventListener("change", showPrefix);
    domain.addEventListener("change", check);
    // A browser that goes back to the form keeps the chosen domain.
    showPrefix();
  }
}

// A link expires after a period or at a date: choosing one takes the other back.
const period = document.getElementById("expires");
if (period) {
  const date = document.getElementById("expires_at");
  period.addEventListener("change", () => { if (period.value) date.value = date.defaultValue; });
  date.addEventListener("input", () => { period.value = ""; });
}

// The target with the parameters of the campaign, as the server puts them together.
const campaign = document.querySelector("[data-campaign]");
if (campaign) {
  const target = document.getElementById("long_url");
  const result = document.querySelector("[data-campaign-result]");
  const fields = [...campaign.querySelectorAll("input")];
  const join = () => {
    let url;
    try {
      url = new URL(target.value);
    } catch {
      result.hidden = true;
      return;
    }
    const changed = fields.filter((field) => field.value.trim() !== field.dataset.before.trim());
    const stays = (pair) => pair && !changed.some((field) => field.name === pair.split("=")[0]);
    const added = new URLSearchParams(changed.filter((field) => field.value.trim()).map((field) => [field.name, field.value.trim()]));
    if (changed.length > 0) url.search = [...url.search.slice(1).split("&").filter(stays), added.toString()].filter(Boolean).join("&");
    result.hidden = false;
    result.querySelector("output").textContent = url.href;
  };
  join();
  for (const field of [target, ...fields]) field.addEventListener("input", join);
}

// A colour that is chosen is the one that counts.
const accent = document.querySelector("[data-accent]");
if (accent) accent.addEventListener("input", () => { const usual = document.querySelector("[data-usual-accent]"); if (usual) usual.checked = false; });

// The QR code beside the form: drawn again when the alias or a colour changes.
const qr = document.querySelector("[data-qr]");
if (qr) {
  const fields = [...document.querySelectorAll("[data-qr-field]")];
  const problem = document.querySelector("[data-qr-problem]");
  document.querySelector("[data-qr-fields]").hidden = false;
  let drawn = 0;
  const draw = async () => {
    const turn = ++drawn;
    await new Promise((done) => { setTimeout(done, 200); });
    if (turn !== drawn) return;
    const put = (url) => {
      for (const field of fields) {
        if (field.type !== "checkbox") url.searchParams.set(field.dataset.qrField, field.value.replace("#", ""));
        else if (field.checked) url.searchParams.set(field.dataset.qrField, "true");
        else url.searchParams.delete(field.dataset.qrField);
      }
      return url.href;
    };
    const url = new URL(qr.src);
    const domain = document.getElementById("domain");
    if (alias) url.searchParams.set("alias", alias.value);
    if (alias && domain) url.searchParams.set("domain", domain.value);
    qr.src = put(url);
    for (const file of document.querySelectorAll("[data-qr-file]")) file.href = put(new URL(file.href));
  };
  qr.addEventListener("error", async () => {
    // The server refuses colours that scanners cannot tell apart. Anything else is no fault of the colours.
    let refused = false;
    const shown = qr.src;
    try {
      const answer = await fetch(shown);
      refused = answer.status === 400 || answer.status === 422;
    } catch {
      // There is no answer.
    }
    if (qr.src !== shown) return;
    problem.textContent = refused ? problem.dataset.colours : "The preview could not be loaded. Try again in a moment.";
    problem.hidden = false;
  });
  qr.addEventListener("load", () => { problem.hidden = true; });
  for (const field of [...fields, alias, alias && document.getElementById("domain")]) {
    if (field) field.addEventListener("input", draw);
  }
}

// The list of links: search as you type, selection, and keys.
const list = document.getElementById("rows");
if (list) {
  const find = document.getElementById("q");
  const bulk = document.querySelector(".bulk");
  const selected = document.querySelector("[data-selected]");
  const rows = () => [...list.querySelectorAll("[data-row]")];
  const picks = () => [...list.querySelectorAll(".pick")];
  const selectAll = document.querySelector("[data-all]");
  const update = () => {
    const picked = picks().filter((pick) => pick.checked).length;
    bulk.hidden = picked === 0;
    selected.textContent = picked === 1 ? "1 link:" : `${picked} links:`;
    selectAll.checked = picked > 0 && picked === picks().length;
    selectAll.indeterminate = picked > 0 && !selectAll.checked;
  };
  update();
  list.addEventListener("change", update);
  selectAll.parentElement.hidden = false;
  selectAll.addEventListener("change", () => {
    for (const pick of picks()) pick.checked = selectAll.checked;
    // The bar goes away with the selection, and the focus with the bar.
    if (!selectAll.checked && picks()[0]) picks()[0].focus();
    update();
  });

  // The tags that the field suggests are counted when it is first used.
  const tagField = document.querySelector("[data-tags]");
  tagField.addEventListener("focus", async () => {
    try {
      const answer = await fetch(tagField.dataset.tags);
      if (!answer.ok || answer.redirected) return;
      const parsed = new DOMParser().parseFromString(`<datalist>${await answer.text()}</datalist>`, "text/html");
      tagField.list.replaceChildren(...parsed.querySelectorAll("option"));
    } catch {
      // Without an answer, tags are typed.
    }
  }, { once: true });

  // A tag is needed only for two of the actions.
  const action = document.getElementById("action");
  const tag = document.getElementById("bulk-tag");
  const needTag = () => {
    tag.required = ["tag", "untag"].includes(action.value);
    tag.hidden = !tag.required;
  };
  action.addEventListener("change", needTag);
  needTag();

  let asked = 0;
  const pause = (time) => new Promise((done) => { setTimeout(done, time); });
  // A part of the page; none if the list has changed since.
  const load = async (url, part, turn) => {
    url.searchParams.set("part", part);
    const answer = await fetch(url);
    const fragment = await answer.text();
    if (turn !== asked || !answer.ok || answer.redirected) return null;
    return new DOMParser().parseFromString(fragment, "text/html").body;
  };
  // The small charts, once nothing has been typed for a while: each costs the server a report.
  const loadCharts = async (url, turn) => {
    await pause(400);
    if (turn !== asked) return;
    const loaded = await load(url, "charts", turn);
    if (!loaded) return;
    const charts = new Map([...loaded.querySelectorAll("[data-row]")].map((row) => [row.querySelector(".pick").name, row.querySelector(".link-spark")]));
    for (const row of rows()) {
      const chart = charts.get(row.querySelector(".pick").name);
      if (chart) row.querySelector(".link-spark").replaceWith(chart);
    }
  };
  find.addEventListener("input", async () => {
    const turn = ++asked;
    await pause(120);
    if (turn !== asked) return;
    const url = new URL(list.dataset.rows, location.href);
    url.searchParams.set("q", find.value);
    try {
      const loaded = await load(url, "rows", turn);
      if (!loaded) return;
      list.replaceChildren(...loaded.childNodes);
      url.searchParams.delete("part");
      history.replaceState(null, "", url);
      document.querySelector("[data-bulk] [name=back]").value = url.pathname + url.search;
      const filters = document.querySelector("[data-filters]");
      let text = filters.querySelector("[name=q]");
      if (!text) {
        text = document.createElement("input");
        [text.type, text.name] = ["hidden", "q"];
        filters.append(text);
      }
      text.value = find.value;
      for (const chip of document.querySelectorAll(".chips a")) {
        const there = new URL(chip.href);
        there.searchParams.set("q", find.value);
        chip.href = there;
      }
      addCopyButtons(list);
      update();
      const found = rows().length;
      spoken.textContent = found === 0 ? "No links match." : list.querySelector(".next") ? `The first ${found} links that match.` : found === 1 ? "1 link matches." : `${found} links match.`;
      await loadCharts(url, turn);
    } catch {
      // Without an answer the list stays; Enter loads the page.
    }
  });

  let at = -1;
  const move = (to) => {
    const all = rows();
    if (all.length === 0) return;
    if (all[at]) all[at].classList.remove("at");
    at = Math.max(0, Math.min(all.length - 1, to));
    all[at].classList.add("at");
    all[at].querySelector(".copy-source").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key.length === 1 && !shortcuts) return;
    const isDown = event.key === "ArrowDown" || (event.key === "j" && event.target !== find);
    // From the search field, or where nothing has the focus, the first row gets it.
    if (isDown && (event.target === find || (shortcuts && event.target === document.body)) && rows()[0]) {
      event.preventDefault();
      return move(0);
    }
    if (isTyping(event.target) && event.target.type !== "checkbox") return;
    // Only inside the list: elsewhere the arrows scroll, and letters do nothing.
    const focused = document.activeElement.closest("[data-row]");
    if (!focused) return;
    at = rows().indexOf(focused);
    const row = rows()[at];
    const press = (css) => { const found = row && row.querySelector(css); if (found) found.click(); };
    if (event.key === "ArrowDown" || event.key === "j") move(at + 1);
    else if (event.key === "ArrowUp" || event.key === "k") move(at - 1);
    else if (event.key === "x" && row) press(".pick");
    else if (event.key === "c" && row) press(".copy");
    else if (event.key === "e" && row) press("[data-edit]");
    else return;
    event.preventDefault();
  });
}

// Reported links: keys move between them and decide. A decision needs a report that is chosen; `u` takes the last one back.
const cases = [...document.querySelectorAll("[data-case]")];
const undo = document.querySelector(".toast [data-key=u]");
if (shortcuts && (cases.length > 0 || undo)) {
  for (const hint of document.querySelectorAll(".keys-hint")) hint.hidden = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    const at = cases.indexOf(document.activeElement.closest("[data-case]"));
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      if (cases.length === 0) return;
      if (at < 0 && event.key.startsWith("Arrow")) return;
      cases[Math.max(0, Math.min(cases.length - 1, at + step))].focus();
    } else {
      const button = event.key === "u" ? undo : at < 0 ? null : cases[at].querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (!button) return;
      button.click();
    }
    event.preventDefault();
  });
}

// An import under way: its progress, until it ends. Without this script the page loads itself again.
const progress = [...document.querySelectorAll("[data-progress]")];
if (progress.length > 0) {
  const follow = async () => {
    const address = progress[0].dataset.progress;
    try {
      const answer = await fetch(address);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelectorAll("[data-progress]");
      if (answer.redirected || fresh.length !== progress.length) return location.replace(address);
      progress.forEach((part, place) => part.replaceChildren(...fresh[place].childNodes));
    } catch {
      // Without an answer the figures stay until the next one.
    }
    setTimeout(follow, 2000);
  };
  // A small file is done at once.
  setTimeout(follow, 500);
}
