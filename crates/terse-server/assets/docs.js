// The API documentation: a search box, and a form to try each call. The page works without it.
"use strict";
const tools = document.querySelector(".tools");
const search = document.querySelector("#search");
const found = document.querySelector("#found");
const key = document.querySelector("#key");
tools.hidden = false;

// Every call with the words that a reader may look for.
const calls = [...document.querySelectorAll("section.call")].map((section) => ({
  section,
  entry: document.querySelector(`.index a[href="#${section.id}"]`).closest("li"),
  words: `${section.id} ${section.textContent}`.toLowerCase(),
}));

search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
  let count = 0;
  for (const call of calls) {
    const matches = words.every((word) => call.words.includes(word));
    call.section.hidden = !matches;
    call.entry.hidden = !matches;
    count += matches ? 1 : 0;
  }
  for (const group of document.querySelectorAll("section.group")) {
    const inside = [...group.querySelectorAll("section.call")];
    group.hidden = inside.length > 0 && inside.every((section) => section.hidden);
  }
  for (const list of document.querySelectorAll(".index details")) {
    const inside = [...list.querySelectorAll("li")];
    list.hidden = inside.every((entry) => entry.hidden);
    list.open = words.length > 0 || list === document.querySelector(".index details");
  }
  found.textContent = words.length === 0 ? "" : `${count} of ${calls.length} calls`;
});

for (const details of document.querySelectorAll("details.try")) {
  details.hidden = false;
  const form = details.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}

// The longest answer that is shown, in characters.
const MAX_LENGTH = 65536;

async function send(form) {
  const status = form.querySelector(".sent");
  const shown = form.querySelector(".answer");
  const button = form.querySelector("button");
  const secret = key.value.trim();
  if (form.dataset.needsKey !== undefined && secret === "") {
    status.textContent = "This call needs a key: enter it at the top of the page.";
    key.focus();
    return;
  }
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const headers = new Headers({ Accept: "application/json" });
  let body;
  for (const field of form.querySelectorAll("[data-in]")) {
    const { name } = field.dataset;
    const value = field.value.trim();
    if (field.dataset.in === "body") {
      body = value;
      headers.set("Content-Type", "application/json");
    } else if (field.dataset.in === "path") {
      path = path.replace(`{${name}}`, encodeURIComponent(value));
    } else if (value !== "" && field.dataset.in === "query") {
      query.append(name, value);
    } else if (value !== "") {
      headers.set(name, value);
    }
  }
  if (secret !== "") headers.set("Authorization", `Bearer ${secret}`);
  const url = new URL(path, location.origin);
  url.search = query;
  // A path cannot name another host. This check makes sure that the key is never sent to one.
  if (url.origin !== location.origin) return;
  status.textContent = "Sending …";
  button.disabled = true;
  try {
    const answer = await fetch(url, {
      method: form.dataset.method,
      headers,
      body,
      mode: "same-origin",
      credentials: "omit",
      cache: "no-store",
      redirect: "manual",
      referrerPolicy: "no-referrer",
    });
    const text = await answer.text();
    status.textContent = answer.type === "opaqueredirect"
      ? "The answer is a redirect."
      : `${answer.status} ${answer.statusText}`.trim();
    shown.firstElementChild.textContent = pretty(text).slice(0, MAX_LENGTH);
    shown.hidden = text === "";
  } catch (error) {
    status.textContent = `Not sent: ${error.message}`;
    shown.hidden = true;
  } finally {
    button.disabled = false;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
