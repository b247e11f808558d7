//! The ids of traces and spans, and the header field that carries them (W3C Trace Context).

use std::fmt;

/// Names a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceId([u8; 16]);

/// Names a span in its trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SpanId([u8; 8]);

impl TraceId {
    pub(crate) fn random() -> Self {
        Self(random())
    }
}

impl SpanId {
    pub(crate) fn random() -> Self {
        Self(random())
    }
}

/// Random bytes that are not all zero, which would be no valid id.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    if bytes == [0; N] {
        bytes[N - 1] = 1;
    }
    bytes
}

/// The span of another server that a request belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RemoteParent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) sampled: bool,
}

impl RemoteParent {
    /// Reads a `traceparent`: `00-TRACE-SPAN-FLAGS`, in lower-case hexadecimal digits. `None` if it
    /// is malformed, as the specification says.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('-').collect();
        let (version, rest) = parts.split_first()?;
        let [trace, span, flags, further @ ..] = rest else { return None };
        let [version] = bytes::<1>(version)?;
        // Later versions may have further parts.
        if version == 0xff || version == 0 && !further.is_empty() {
            return None;
        }
        let (trace, span, [flags]) = (bytes(trace)?, bytes(span)?, bytes::<1>(flags)?);
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = Some(text.as_bytes()).filter(|text| text.len() == 2 * N)?;
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_the_specification_says() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for (text, sampled) in [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), false),
            (format!("00-{trace}-{span}-03"), true),
            (format!("cc-{trace}-{span}-01-what-comes-later"), true),
        ] {
            let parent = RemoteParent::parse(&text).unwrap();
            let read = (parent.trace.to_string(), parent.span.to_string(), parent.sampled);
            assert_eq!(read, (trace.to_owned(), span.to_owned(), sampled));
        }
        for text in [
            String::new(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{trace}-{span}"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}0-{span}-01"),
        ] {
            assert_eq!(RemoteParent::parse(&text), None, "{text}");
        }
    }
}
