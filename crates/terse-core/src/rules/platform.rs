//! Devices and operating systems, named as in click statistics.

/// All device names.
pub const DEVICES: &[&str] =
    &["desktop", "mobile", "tablet", "tv", "console", "headset", "wearable", "bot"];

/// The operating systems that rules can name. A closed list, so that a typo is refused instead of
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

/// Distributions that also match `Linux`.
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

/// Whether a visitor's operating system matches the one in a rule.
pub(super) fn matches(system: &str, wanted: &str) -> bool {
    system.eq_ignore_ascii_case(wanted)
        || (wanted == "Linux" && LINUX.iter().any(|name| name.eq_ignore_ascii_case(system)))
}
