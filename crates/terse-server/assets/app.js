// The dashboard: shortcuts and the viewer's time zone. The pages work without this script.
"use strict";

// Pages show times in the zone of this cookie; before it is set, in UTC.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && /^[A-Za-z0-9_+\/-]{1,64}$/.test(zone) && !document.cookie.split("; ").includes(`terse_zone=${zone}`)) {
  document.cookie = `terse_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
}

function isTyping(element) {
  return element.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("q").select();
    document.getElementById("q").focus();
  } else if (event.key === "n") {
    event.preventDefault();
    document.querySelector("[data-new]").click();
  } else if (event.key === "Escape") {
    for (const open of document.querySelectorAll("details[data-menu][open]")) open.open = false;
  }
});

// A menu closes when something else is pressed.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details[data-menu][open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
