// Adds the buttons that copy and share links and show passwords, and shows visitors times in their zone. The pages work without this script.
"use strict";
// The words in the language of the page; the dashboard is in English.
const words = (name, usual) => (document.body.dataset[name] || usual).split("|");
const [copyWord, copiedWord, copyByKeyWord] = words("copyWords", "Copy|Copied|Selected. Press Ctrl+C or ⌘C to copy.");
const [showWord, hideWord, showPasswordWord, hidePasswordWord] = words("showWords", "Show|Hide|Show the password|Hide the password");
addCopyButtons(document);

// Passwords can be shown while they are typed.
for (const field of document.querySelectorAll("input[type=password]")) {
  const [box, button] = [document.createElement("div"), document.createElement("button")];
  const focused = document.activeElement === field;
  box.className = "reveal";
  button.type = "button";
  button.className = "quiet button";
  const show = (shown) => {
    field.type = shown ? "text" : "password";
    button.textContent = shown ? hideWord : showWord;
    button.setAttribute("aria-label", shown ? hidePasswordWord : showPasswordWord);
  };
  show(false);
  field.replaceWith(box);
  box.append(field, button);
  if (focused) field.focus();
  button.addEventListener("click", () => show(field.type === "password"));
  // A password manager and the next visitor see a password field.
  if (field.form) field.form.addEventListener("submit", () => show(false));
}

// Visitors see times in their own zone; the server writes UTC. The dashboard has the zone of the account.
if (!document.body.classList.contains("app")) {
  // In the page's language, as the visitor's country writes dates.
  const { lang } = document.documentElement;
  const locale = navigator.languages.find((one) => one.split("-")[0] === lang) || lang;
  const format = new Intl.DateTimeFormat(locale, {
    day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  });
  for (const time of document.querySelectorAll("time[datetime]")) {
    const local = format.format(new Date(time.dateTime));
    // A time such as "2 days ago" has the exact one in its title.
    if (time.title) time.title = local;
    else time.textContent = local;
  }
}

// After signing in, the first page shows times in this zone already. The dashboard keeps the cookie up to date.
for (const form of document.querySelectorAll("form[data-zone]")) form.addEventListener("submit", keepZone);
if (document.body.classList.contains("app")) keepZone();

function keepZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && /^[A-Za-z0-9_+\/-]{1,64}$/.test(zone) && !document.cookie.split("; ").includes(`terse_zone=${zone}`)) {
    document.cookie = `terse_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  }
}

// Sharing, where the browser offers it.
for (const button of document.querySelectorAll("[data-share]")) {
  if (!navigator.share) continue;
  button.hidden = false;
  // The visitor closed the list of apps without a choice.
  button.addEventListener("click", () => { navigator.share({ url: button.dataset.share }).catch(() => {}); });
}

function addCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) addCopyButton(button);
}

function addCopyButton(button) {
  const area = button.closest(".card, .link-row, .link-head, .sheet");
  const status = area.querySelector(".copy-status") || document.querySelector(".copy-status");
  button.hidden = false;
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // Browsers offer the clipboard API only over https: select the text and copy the selection.
      const shown = area.querySelector("#short, #fresh");
      copied = shown ? copySelected(shown) : copyFrom(button.dataset.copy, area);
    }
    button.textContent = copied ? copiedWord : copyWord;
    status.textContent = copied ? "" : copyByKeyWord;
    // The label of a button may hide its text from screen readers, and a changed text is not read.
    const spoken = document.querySelector("[data-status]");
    if (spoken) spoken.textContent = copied ? copiedWord : "";
    setTimeout(() => {
      button.textContent = copyWord;
      if (spoken && spoken.textContent === copiedWord) spoken.textContent = "";
    }, 2500);
  });
}

function copySelected(element) {
  getSelection().selectAllChildren(element);
  return document.execCommand("copy");
}

// Copies a text that is not on the page in full.
function copyFrom(text, area) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  area.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}
