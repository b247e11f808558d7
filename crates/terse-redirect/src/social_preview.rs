//! The page with a link's own preview, for fetchers of chats and social networks.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use terse_core::{SocialPreview, Target};

/// The page is the same for every fetcher, and caches must not give it to other visitors.
pub(crate) fn preview_response(preview: &SocialPreview) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(page(preview)));
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "private, max-age=0, no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("x-robots-tag"), "noindex"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn page(preview: &SocialPreview) -> String {
    let mut page = String::with_capacity(1024);
    page.push_str("<!doctype html><html><head><meta charset=\"utf-8\"><title>");
    escape(preview.title().unwrap_or_default(), &mut page);
    page.push_str("</title>");
    let image = preview.image_url().map(Target::as_str);
    let card = image.map_or("summary", |_| "summary_large_image");
    for (kind, name, content) in [
        ("property", "og:type", Some("website")),
        ("property", "og:title", preview.title()),
        ("property", "og:description", preview.description()),
        ("name", "description", preview.description()),
        ("property", "og:image", image),
        ("name", "twitter:card", Some(card)),
    ] {
        let Some(content) = content else { continue };
        for part in ["<meta ", kind, "=\"", name, "\" content=\""] {
            page.push_str(part);
        }
        escape(content, &mut page);
        page.push_str("\">");
    }
    page.push_str("</head><body></body></html>");
    page
}

/// Escapes a text for content and for quoted attributes.
fn escape(text: &str, to: &mut String) {
    for c in text.chars() {
        match c {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            c => to.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_owner_cannot_leave_their_place() {
        let hostile = r#"{"title":"</title><script>alert('1')</script>",
            "description":"\"><img src=x onerror=alert(1)>"}"#;
        let page = page(&SocialPreview::from_stored(hostile).unwrap());
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert_eq!(page.matches("<meta ").count(), 6, "{page}");
        assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)"), "{page}");
    }
}
