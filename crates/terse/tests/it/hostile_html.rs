//! Checks that a page is inert: only our own script can run.

/// Parses a page like a browser and rejects active content: foreign scripts, `on…` attributes,
/// styles, frames and URLs other than http.
pub(crate) fn inert(page: &str) -> Result<(), String> {
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let begins = |c: char| c.is_ascii_alphabetic() || c == '/' || c == '!';
        if !rest.starts_with(begins) {
            continue; // a plain "<" is text
        }
        let (name, attributes, after) = tag(rest);
        match name.to_ascii_lowercase().as_str() {
            "script" => {
                let own = attributes.iter().any(|(name, value)| {
                    name == "src" && value.starts_with('/') && !value.starts_with("//")
                });
                if !own || !after.starts_with("</script>") {
                    return Err(format!("a script that is not ours: {:.200}", rest));
                }
            }
            "iframe" | "object" | "embed" | "base" | "style" | "img" => {
                return Err(format!("<{name}> on a page: {:.200}", rest));
            }
            _ => {}
        }
        for (name, value) in &attributes {
            let address = matches!(name.as_str(), "href" | "src" | "action");
            let safe =
                ["/", "#", "http://", "https://"].iter().any(|start| value.starts_with(start));
            if name.starts_with("on")
                || name == "style"
                || name == "http-equiv"
                || (address && !safe)
            {
                return Err(format!("{name}={value:?} on a page"));
            }
        }
        rest = after;
    }
    Ok(())
}

/// The name and attributes of a tag, and the rest of the text.
fn tag(text: &str) -> (&str, Vec<(String, String)>, &str) {
    let ends =
        |(at, c): &(usize, char)| c.is_ascii_whitespace() || *c == '>' || (*c == '/' && *at > 0);
    let end = text.char_indices().find(ends).map_or(text.len(), |(at, _)| at);
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return (name, attributes, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (name, attributes, after);
        }
        let end = rest
            .find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))
            .unwrap_or(rest.len())
            .max(1);
        let key = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let start = usize::from(quote.is_some());
            let closes =
                |c: char| quote.map_or(c.is_ascii_whitespace() || c == '>', |quote| c == quote);
            let end = after[start..].find(closes).map_or(after.len(), |at| at + start);
            value = &after[start..end];
            rest = &after[(end + start).min(after.len())..];
        }
        attributes.push((key, value.to_owned()));
    }
}

#[test]
fn what_would_run_is_seen() {
    assert_eq!(
        inert(
            "<!doctype html><script src=\"/a.js\" defer></script>\
             <a href=\"/x\" title='\"on'>a < b</a>"
        ),
        Ok(())
    );
    for bad in [
        "<script>alert(1)</script>",
        r#"<script src="//evil.example/x.js"></script>"#,
        r#"<a title="" onmouseover="alert(1)">"#,
        "<svg/onload=alert(1)>",
        "<img src=x onerror=alert(1)>",
        r#"<a href="javascript:alert(1)">"#,
        "<p style='x'>",
    ] {
        assert!(inert(bad).is_err(), "{bad}");
    }
}
