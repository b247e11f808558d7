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
    pub(crate) places: Vec<Location>,
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
pub(crate) struct Location {
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
