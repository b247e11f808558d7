//! Version 1 of the messages, as in `docs/click-message.proto`. Never changed: another shape is
//! another version.

/// A message on the topic.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClickMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) journal: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(crate) epoch: u32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) spans: Vec<Span>,
    #[prost(message, optional, tag = "5")]
    pub(crate) clicks: Option<Clicks>,
    #[prost(message, optional, tag = "6")]
    pub(crate) forget: Option<Forget>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Span {
    #[prost(fixed64, tag = "1")]
    pub(crate) segment: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) from: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) to: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Forget {
    #[prost(uint64, tag = "1")]
    pub(crate) generation: u64,
    #[prost(fixed64, repeated, tag = "2")]
    pub(crate) segments: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Clicks {
    #[prost(message, repeated, tag = "1")]
    pub(crate) targets: Vec<Target>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) agents: Vec<Agent>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) networks: Vec<Network>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) places: Vec<Place>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) referrers: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) languages: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) campaigns: Vec<Campaign>,

    #[prost(sint64, repeated, tag = "8")]
    pub(crate) at_ms: Vec<i64>,
    #[prost(fixed64, repeated, tag = "9")]
    pub(crate) visitor: Vec<u64>,
    #[prost(uint64, repeated, tag = "10")]
    pub(crate) took_nanos: Vec<u64>,
    #[prost(uint32, repeated, tag = "11")]
    pub(crate) target: Vec<u32>,
    #[prost(uint32, repeated, tag = "12")]
    pub(crate) weight: Vec<u32>,
    #[prost(uint32, repeated, tag = "13")]
    pub(crate) agent: Vec<u32>,
    #[prost(uint32, repeated, tag = "14")]
    pub(crate) network: Vec<u32>,
    #[prost(uint32, repeated, tag = "15")]
    pub(crate) referrer: Vec<u32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) language: Vec<u32>,
    #[prost(uint32, repeated, tag = "17")]
    pub(crate) campaign: Vec<u32>,
    #[prost(bytes = "vec", tag = "18")]
    pub(crate) kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "19")]
    pub(crate) warning: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Target {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(string, tag = "2")]
    pub(crate) code: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) link: Option<Link>,
    #[prost(string, tag = "4")]
    pub(crate) orphan: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Link {
    #[prost(int64, tag = "1")]
    pub(crate) created_at_ms: i64,
    #[prost(uint64, tag = "2")]
    pub(crate) owner: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Agent {
    #[prost(string, optional, tag = "1")]
    pub(crate) device: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) browser: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) system: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Network {
    #[prost(string, optional, tag = "1")]
    pub(crate) address: Option<String>,
    #[prost(uint32, tag = "2")]
    pub(crate) place: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Place {
    #[prost(string, optional, tag = "1")]
    pub(crate) country: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) city: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Campaign {
    #[prost(string, optional, tag = "1")]
    pub(crate) source: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) medium: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(crate) campaign: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(crate) term: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(crate) content: Option<String>,
}

#[cfg(test)]
mod tests {
    /// Message, name, label, type and number of a field.
    type Field = (String, String, String, String, u32);

    /// The fields of `docs/click-message.proto`.
    fn documented() -> Vec<Field> {
        let text = include_str!("../../../docs/click-message.proto");
        let (mut message, mut fields) = (String::new(), Vec::new());
        for line in text.lines() {
            let line = line.split("//").next().unwrap().trim();
            if let Some(name) = line.strip_prefix("message ") {
                message = name.trim_end_matches(" {").to_owned();
            } else if let Some((field, number)) = line.split_once(" = ")
                && !message.is_empty()
            {
                let number = number.trim_end_matches(';').parse().unwrap();
                let parts: Vec<&str> = field.split_whitespace().collect();
                let (label, of, name) = match *parts {
                    // A field that is a message is always optional.
                    [of, name] if of.starts_with(char::is_uppercase) => ("optional", of, name),
                    [of, name] => ("", of, name),
                    [label, of, name] => (label, of, name),
                    _ => panic!("{line}"),
                };
                let [name, label, of] = [name, label, of].map(str::to_owned);
                fields.push((message.clone(), name, label, of, number));
            }
        }
        fields
    }

    /// The fields of the types above.
    fn written() -> Vec<Field> {
        let text = include_str!("wire.rs").split("#[cfg(test)]").next().unwrap();
        let (mut message, mut attributes, mut fields) = (String::new(), "", Vec::new());
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("pub(crate) struct ") {
                message = name.trim_end_matches(" {").to_owned();
            } else if let Some(all) = line.strip_prefix("#[prost(") {
                attributes = all.trim_end_matches(")]");
            } else if let Some(field) = line.strip_prefix("pub(crate) ") {
                let (name, of_rust) = field.trim_end_matches(',').split_once(": ").unwrap();
                let parts: Vec<&str> = attributes.split(", ").collect();
                let (of, label) = match *parts {
                    [of, _] => (of, ""),
                    [of, label, _] => (of, label),
                    _ => panic!("{line}"),
                };
                let of = match of.split(" = ").next().unwrap() {
                    "message" => {
                        let inner = of_rust.split_once('<').map_or(of_rust, |(_, inner)| inner);
                        inner.trim_end_matches('>')
                    }
                    scalar => scalar,
                };
                let number = parts.last().unwrap().strip_prefix("tag = ").unwrap();
                let number = number.trim_matches('"').parse().unwrap();
                let [name, label, of] = [name, label, of].map(str::to_owned);
                fields.push((message.clone(), name, label, of, number));
            }
        }
        fields
    }

    #[test]
    fn the_documented_fields_are_those_that_are_written() {
        let (documented, written) = (documented(), written());
        assert_eq!(documented, written);
        assert_eq!(documented.len(), 48);
    }
}
