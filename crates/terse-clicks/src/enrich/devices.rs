//! The class of device that a user agent names.

/// Words that identify a class of device. The first class with a match wins: a watch also calls
/// itself a phone, a console also names Windows.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "tv",
        &[
            "smart-tv",
            "smarttv",
            "smart tv",
            "hbbtv",
            "googletv",
            "google tv",
            "appletv",
            "apple tv",
            "android tv",
            "crkey",
            "roku",
            "bravia",
            "web0s",
            "netcast",
            "vidaa",
            "viera",
            "tvos",
            "; aft",
            "mitv",
            "shield android tv",
            "philipstv",
        ],
    ),
    ("console", &["playstation", "xbox", "nintendo"]),
    ("headset", &["oculusbrowser", "visionos", "pico neo", "mobile vr"]),
    ("wearable", &["watchos", "apple watch", "wearos", "; sm-r8", "; sm-r9"]),
    (
        "tablet",
        &["ipad", "tablet", "playbook", "kindle", "kfapwi", "nexus 7", "nexus 9", "nexus 10"],
    ),
    (
        "mobile",
        &[
            "iphone",
            "ipod",
            "mobile",
            "windows phone",
            "blackberry",
            "bb10",
            "opera mini",
            "opera mobi",
            "kaios",
            "symbian",
            "midp",
            "fennec",
            "iemobile",
            "nokia",
        ],
    ),
    // Android adds `Mobile` on phones only.
    ("tablet", &["android", "; kf"]),
    (
        "desktop",
        &[
            "windows",
            "macintosh",
            "x11",
            "cros",
            "linux",
            "freebsd",
            "openbsd",
            "netbsd",
            "lynx/",
            "w3m/",
            "links (",
        ],
    ),
];

/// The class of the device; `None` if no word matches.
pub(crate) fn device_class(agent: &str) -> Option<&'static str> {
    let agent = agent.to_ascii_lowercase();
    CLASSES
        .iter()
        .find(|(_, words)| words.iter().any(|word| agent.contains(word)))
        .map(|(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_device_is_recognised() {
        for (agent, device, ..) in super::super::samples::BROWSERS {
            assert_eq!(device_class(agent), Some(*device), "{agent}");
        }
        assert_eq!(device_class("an unknown device"), None);
    }
}
