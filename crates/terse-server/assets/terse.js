// Adds the copy buttons for short links and API keys, and buttons that show passwords. The pages work without this script.
"use strict";
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
    button.textContent = shown ? "Hide" : "Show";
    button.setAttribute("aria-label", shown ? "Hide the password" : "Show the password");
  };
  show(false);
  field.replaceWith(box);
  box.append(field, button);
  if (focused) field.focus();
  button.addEventListener("click", () => show(field.type === "password"));
  // A password manager and the next visitor see a password field.
  if (field.form) field.form.addEventListener("submit", () => show(false));
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
    button.textContent = copied ? "Copied" : "Copy";
    status.textContent = copied ? "" : "Selected. Press Ctrl+C or ⌘C to copy.";
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
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
