//! What class of device a user agent speaks of.

/// Words that only one class of device uses, the more telling ones first. A watch calls itself a
/// phone too, a console Windows.
const WORDS: &[(&str, &[&str])] = &[
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
    // Android says `Mobile` on phones alone.
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

/// The class of the device, if it can be told.
pub(crate) fn device_class(agent: &str) -> Option<&'static str> {
    let agent = agent.to_ascii_lowercase();
    WORDS
        .iter()
        .find(|(_, words)| words.iter().any(|word| agent.contains(word)))
        .map(|(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart() {
        for (agent, device, ..) in super::super::samples::BROWSERS {
            assert_eq!(device_class(agent), Some(*device), "{agent}");
        }
        assert_eq!(device_class("nothing that we know"), None);
    }
}
