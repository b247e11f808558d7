//! Builds small databases in MaxMind's format for tests: every address has the same entry.

/// Encodes a text.
pub(crate) fn text(value: &str) -> Vec<u8> {
    assert!(value.len() < 29);
    [&[2 << 5 | value.len() as u8], value.as_bytes()].concat()
}

/// Encodes a map.
pub(crate) fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    assert!(entries.len() < 29);
    let mut bytes = vec![7 << 5 | entries.len() as u8];
    for (key, value) in entries {
        bytes.extend(text(key));
        bytes.extend(value);
    }
    bytes
}

/// An entry as in MaxMind's own files.
pub(crate) fn nested(country: &str, city: &str) -> Vec<u8> {
    let names = map(&[("de", text("anders")), ("en", text(city))]);
    map(&[
        ("city", map(&[("geoname_id", number(5)), ("names", names)])),
        (
            "country",
            map(&[("iso_code", text(country)), ("names", map(&[("en", text("somewhere"))]))]),
        ),
    ])
}

/// An entry as in the files of other providers.
pub(crate) fn flat(country: &str, city: &str) -> Vec<u8> {
    map(&[("city", text(city)), ("country_code", text(country)), ("state1", text("x"))])
}

fn number(value: u8) -> Vec<u8> {
    vec![6 << 5 | 1, value]
}

/// A database in which every address has this entry: a search tree of one node.
pub(crate) fn file(entry: &[u8]) -> Vec<u8> {
    let to_entry = [0, 0, 1 + 16];
    let mut bytes = [to_entry, to_entry].concat();
    bytes.extend([0; 16]);
    bytes.extend(entry);
    bytes.extend(b"\xab\xcd\xefMaxMind.com");
    bytes.extend(map(&[
        ("binary_format_major_version", vec![5 << 5 | 1, 2]),
        ("binary_format_minor_version", vec![5 << 5]),
        ("build_epoch", vec![1, 2, 5]),
        ("database_type", text("Test")),
        ("description", map(&[])),
        ("ip_version", vec![5 << 5 | 1, 6]),
        ("languages", vec![0, 4]),
        ("node_count", number(1)),
        ("record_size", vec![5 << 5 | 1, 24]),
    ]));
    bytes
}
