//! Devices and operating systems, in the words of the statistics of clicks.

/// Every device there is a word for.
pub const DEVICES: &[&str] =
    &["desktop", "mobile", "tablet", "tv", "console", "headset", "wearable", "bot"];

/// The systems that rules can name. A closed list, so that a slip of the pen is refused instead of
/// never matching.
pub const SYSTEMS: &[&str] = &[
    "Android",
    "BlackBerry OS",
    "Chrome OS",
    "Debian",
    "Fedora",
    "FreeBSD",
    "iOS",
    "KaiOS",
    "Linux",
    "macOS",
    "Red Hat",
    "Tizen",
    "tvOS",
    "Ubuntu",
    "WatchOS",
    "webOS",
    "Windows",
    "Windows Phone",
];

/// What is told apart from Linux by name, and is Linux all the same.
const LINUX: &[&str] = &[
    "Arch Linux",
    "CentOS",
    "Debian",
    "Fedora",
    "Gentoo",
    "Kubuntu",
    "Linux Mint",
    "Mandriva",
    "openSUSE",
    "PCLinuxOS",
    "Puppy",
    "Red Hat",
    "Slackware",
    "SUSE",
    "Ubuntu",
];

/// Whether a visitor's system is the one a rule wants.
pub(super) fn is(system: &str, wanted: &str) -> bool {
    system.eq_ignore_ascii_case(wanted)
        || (wanted == "Linux" && LINUX.iter().any(|name| name.eq_ignore_ascii_case(system)))
}
