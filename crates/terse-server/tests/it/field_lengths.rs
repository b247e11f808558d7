//! How much the fields of the pages take.

/// A limit is a constant of the core. A number in a template would stay when the limit changes: the
/// field would then cut what the server accepts, or take what it refuses.
#[test]
fn no_template_has_a_number_as_the_length_of_a_field() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    let mut limited = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, found) in text.match_indices("maxlength=") {
            let value = text[at + found.len()..].trim_start_matches('"');
            let tag = text[..at].rsplit('<').next().unwrap();
            assert!(value.starts_with("{{"), "{}: <{tag}maxlength={value:.9}", path.display());
            let value = value[2..].split("}}").next().unwrap().trim();
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            assert!(!is_number, "{}: <{tag}maxlength={value}", path.display());
            limited += 1;
        }
    }
    assert!(limited > 20, "{limited}");
}
