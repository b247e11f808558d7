//! A batch as a message, and back.

use std::collections::HashSet;
use std::sync::Arc;

use prost::Message as _;
use terse_core::clicks::{
    AgentTraits, Batch, ClickColumns, ClickKind, ClickNetwork, ClickTarget, GeoLocation, Interned,
    JournalId, JournalSpan, LinkId, Sums, WarningVisit,
};
use terse_core::{Answered, Code, Domain, ExceededLimit, LinkKey, OwnerId, Timestamp};

use crate::wire::{
    Agent, Campaign, ClickMessage, Clicks, Forget, Link, Network, Place, Span, Target,
};

/// The version that this terse writes, and the only one that it reads.
pub const MESSAGE_VERSION: u32 = 1;
/// More spans than a journal has segments at a time.
const MAX_SPANS: usize = 100_000;

/// A message, read.
#[derive(Clone, Debug)]
pub enum BusMessage {
    /// Stretches of one journal and their clicks. The epochs are the sender's.
    Clicks(Arc<Batch>),
    /// The sender has deleted these segments long ago: their positions are no longer needed.
    Forget {
        /// The journal.
        journal: JournalId,
        /// See [`ClickIngest::forget`](terse_core::clicks::ClickIngest::forget).
        generation: u64,
        /// The segments.
        segments: Vec<u64>,
    },
}

/// Why a message cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FormatError {
    /// It is not what Protocol Buffers calls a message.
    #[error("it is not a message in the format of terse: {0}")]
    Encoding(String),
    /// A later terse sent it.
    #[error("its version is {0}, and this terse reads version {MESSAGE_VERSION}")]
    Version(u32),
    /// A field has a value that no terse writes.
    #[error("{0}")]
    Field(&'static str),
}

/// The message of a batch. `None` if its spans are not of one journal.
pub fn encode(batch: &Batch) -> Option<Vec<u8>> {
    let first = batch.spans.first()?;
    if batch.spans.iter().any(|span| (span.journal, span.epoch) != (first.journal, first.epoch)) {
        return None;
    }
    let span = |span: &JournalSpan| Span { segment: span.segment, from: span.from, to: span.to };
    let message = ClickMessage {
        version: MESSAGE_VERSION,
        journal: first.journal.0.to_vec(),
        epoch: first.epoch,
        spans: batch.spans.iter().map(span).collect(),
        clicks: Some(clicks(&batch.clicks)),
        forget: None,
    };
    Some(message.encode_to_vec())
}

/// The message that has the workers forget the positions of segments.
pub fn encode_forget(journal: JournalId, epoch: u32, generation: u64, segments: &[u64]) -> Vec<u8> {
    let message = ClickMessage {
        version: MESSAGE_VERSION,
        journal: journal.0.to_vec(),
        epoch,
        spans: Vec::new(),
        clicks: None,
        forget: Some(Forget { generation, segments: segments.to_vec() }),
    };
    message.encode_to_vec()
}

fn clicks(columns: &ClickColumns) -> Clicks {
    fn text(value: &Option<Interned>) -> Option<String> {
        value.as_deref().map(str::to_owned)
    }
    fn texts(values: &[Option<Interned>]) -> Vec<String> {
        values.iter().map(|value| value.as_deref().unwrap_or_default().to_owned()).collect()
    }
    let target = |target: &ClickTarget| {
        let (key, link, orphan) = match target {
            ClickTarget::Link(LinkId { key, created_at }, owner) => {
                (key, Some(Link { created_at_ms: created_at.as_ms(), owner: owner.0 }), "")
            }
            ClickTarget::Orphan(key, answered) => (key, None, answered.as_str()),
        };
        let (domain, code) = (key.domain.as_str().to_owned(), key.code.as_str().to_owned());
        Target { domain, code, link, orphan: orphan.to_owned() }
    };
    let agent = |agent: &AgentTraits| Agent {
        device: text(&agent.device),
        browser: text(&agent.browser),
        system: text(&agent.system),
    };
    let network =
        |network: &ClickNetwork| Network { address: text(&network.address), place: network.place };
    let place =
        |place: &GeoLocation| Place { country: text(&place.country), city: text(&place.city) };
    let campaign = |[source, medium, campaign, term, content]: &[Option<Interned>; 5]| Campaign {
        source: text(source),
        medium: text(medium),
        campaign: text(campaign),
        term: text(term),
        content: text(content),
    };
    let mut before = 0;
    let since_before = |at: &i64| at.wrapping_sub(std::mem::replace(&mut before, *at));
    Clicks {
        targets: columns.targets.iter().map(target).collect(),
        agents: columns.agents.iter().map(agent).collect(),
        networks: columns.networks.iter().map(network).collect(),
        places: columns.places.iter().map(place).collect(),
        referrers: texts(&columns.referrers),
        languages: texts(&columns.languages),
        campaigns: columns.campaigns.iter().map(campaign).collect(),
        at_ms: columns.at_ms.iter().map(since_before).collect(),
        visitor: columns.visitor.clone(),
        took_nanos: columns.took_nanos.clone(),
        target: columns.target.clone(),
        weight: columns.weight.clone(),
        agent: columns.agent.clone(),
        network: columns.network.clone(),
        referrer: columns.referrer.clone(),
        language: columns.language.clone(),
        campaign: columns.campaign.clone(),
        kind: columns.kind.iter().map(|kind| kind.octet()).collect(),
        warning: columns.warning.iter().map(|warning| warning.octet()).collect(),
    }
}

/// Reads a message. Every number in it is checked, so that a damaged message is an error here and
/// not a panic later.
pub fn decode(bytes: &[u8]) -> Result<BusMessage, FormatError> {
    let message = ClickMessage::decode(bytes);
    let message = message.map_err(|error| FormatError::Encoding(error.to_string()))?;
    let ClickMessage { version, journal, epoch, spans, clicks, forget } = message;
    if version != MESSAGE_VERSION {
        return Err(FormatError::Version(version));
    }
    let journal = <[u8; 16]>::try_from(journal);
    let journal = JournalId(journal.map_err(|_| FormatError::Field("journal must be 16 octets"))?);
    match (clicks, forget) {
        (Some(clicks), None) => {
            let spans = read_spans(journal, epoch, &spans)?;
            let columns = read_columns(clicks)?;
            let mut sums = Sums::default();
            columns.rows().for_each(|row| sums.add(&columns, &row));
            let sums = sums.finish(&columns).0;
            Ok(BusMessage::Clicks(Arc::new(Batch::new(spans, columns, sums))))
        }
        (None, Some(Forget { generation, segments })) => {
            Ok(BusMessage::Forget { journal, generation, segments })
        }
        _ => Err(FormatError::Field("it must have either clicks or forget")),
    }
}

fn read_spans(
    journal: JournalId,
    epoch: u32,
    spans: &[Span],
) -> Result<Vec<JournalSpan>, FormatError> {
    if spans.is_empty() || spans.len() > MAX_SPANS {
        return Err(FormatError::Field("spans must be 1 to 100000"));
    }
    let mut seen = HashSet::new();
    let read = |&Span { segment, from, to }: &Span| {
        if from >= to {
            return Err(FormatError::Field("a span must begin before it ends"));
        }
        if !seen.insert(segment) {
            return Err(FormatError::Field("spans must have each segment once"));
        }
        Ok(JournalSpan { journal, epoch, segment, from, to })
    };
    spans.iter().map(read).collect()
}

fn read_columns(clicks: Clicks) -> Result<ClickColumns, FormatError> {
    let Clicks { targets, agents, networks, places, referrers, languages, campaigns, .. } = &clicks;
    let count = clicks.at_ms.len();
    let lengths = [
        clicks.visitor.len(),
        clicks.took_nanos.len(),
        clicks.target.len(),
        clicks.weight.len(),
        clicks.agent.len(),
        clicks.network.len(),
        clicks.referrer.len(),
        clicks.language.len(),
        clicks.campaign.len(),
        clicks.kind.len(),
        clicks.warning.len(),
    ];
    if lengths.iter().any(|length| *length != count) {
        return Err(FormatError::Field("every column must have an entry for every click"));
    }
    let numbers = [
        (&clicks.target, targets.len()),
        (&clicks.agent, agents.len()),
        (&clicks.network, networks.len()),
        (&clicks.referrer, referrers.len()),
        (&clicks.language, languages.len()),
        (&clicks.campaign, campaigns.len()),
    ];
    let is_listed = |(column, length): &(&Vec<u32>, usize)| {
        column.iter().all(|number| (*number as usize) < *length)
    };
    let has_place = |network: &Network| (network.place as usize) < places.len();
    if !numbers.iter().all(is_listed) || !networks.iter().all(has_place) {
        return Err(FormatError::Field("a click refers to an entry that its list does not have"));
    }
    let mut at = 0_i64;
    let since_before = |by: &i64| {
        at = at.wrapping_add(*by);
        at
    };
    let kind = |octet: &u8| ClickKind::from_octet(*octet);
    let warning = |octet: &u8| WarningVisit::from_octet(*octet);
    let text = |value: &Option<String>| value.as_deref().map(Interned::from);
    let texts = |values: &[String]| -> Vec<Option<Interned>> {
        let text = |value: &String| (!value.is_empty()).then(|| Interned::from(&**value));
        values.iter().map(text).collect()
    };
    let agent = |agent: &Agent| AgentTraits {
        device: text(&agent.device),
        browser: text(&agent.browser),
        system: text(&agent.system),
    };
    let network =
        |network: &Network| ClickNetwork { address: text(&network.address), place: network.place };
    let place =
        |place: &Place| GeoLocation { country: text(&place.country), city: text(&place.city) };
    let campaign =
        |of: &Campaign| [&of.source, &of.medium, &of.campaign, &of.term, &of.content].map(text);
    let columns = ClickColumns {
        targets: targets.iter().map(read_target).collect::<Result<_, _>>()?,
        agents: agents.iter().map(agent).collect(),
        networks: networks.iter().map(network).collect(),
        places: places.iter().map(place).collect(),
        referrers: texts(referrers),
        languages: texts(languages),
        campaigns: campaigns.iter().map(campaign).collect(),
        at_ms: clicks.at_ms.iter().map(since_before).collect(),
        kind: clicks
            .kind
            .iter()
            .map(kind)
            .collect::<Option<_>>()
            .ok_or(FormatError::Field("kind has an octet that no version of terse writes"))?,
        warning: clicks
            .warning
            .iter()
            .map(warning)
            .collect::<Option<_>>()
            .ok_or(FormatError::Field("warning must be 0, 1 or 2"))?,
        visitor: clicks.visitor,
        took_nanos: clicks.took_nanos,
        target: clicks.target,
        weight: clicks.weight,
        agent: clicks.agent,
        network: clicks.network,
        referrer: clicks.referrer,
        language: clicks.language,
        campaign: clicks.campaign,
    };
    let is_unknown = columns.agents.first().is_none_or(|first| *first == AgentTraits::default())
        && columns.networks.first().is_none_or(|first| *first == ClickNetwork::default())
        && columns.places.first().is_none_or(|first| *first == GeoLocation::default())
        && columns.referrers.first().is_none_or(Option::is_none)
        && columns.languages.first().is_none_or(Option::is_none)
        && columns.campaigns.first().is_none_or(|first| first.iter().all(Option::is_none));
    if !is_unknown {
        return Err(FormatError::Field("number 0 of every list but targets must be unknown"));
    }
    Ok(columns)
}

fn read_target(target: &Target) -> Result<ClickTarget, FormatError> {
    let code = Code::parse(&target.code).ok_or(FormatError::Field("code must be a code"))?;
    let key = LinkKey { domain: Domain::from_stored(&target.domain), code };
    match &target.link {
        Some(Link { created_at_ms, owner }) => {
            let created_at = Timestamp::from_ms(*created_at_ms);
            Ok(ClickTarget::Link(LinkId { key, created_at }, OwnerId(*owner)))
        }
        None => {
            let answered = ANSWERS.iter().find(|answered| answered.as_str() == target.orphan);
            let answered = answered.ok_or(FormatError::Field(
                "a target must have a link, or in orphan an answer that terse knows",
            ))?;
            Ok(ClickTarget::Orphan(key, *answered))
        }
    }
}

/// An answer of each name.
const ANSWERS: [Answered; 11] = [
    Answered::NotFound,
    Answered::Gone,
    Answered::Blocked,
    Answered::Warned,
    Answered::Redirected,
    Answered::Previewed,
    Answered::PasswordAsked,
    Answered::Limited(ExceededLimit::Guesses),
    Answered::Unavailable,
    Answered::WrongMethod,
    Answered::PrefetchRefused,
];

#[cfg(test)]
mod tests;
