//! The clicks of a file in memory: texts once, and each click as numbers.

use std::cmp::Ordering;
use std::collections::HashMap;

use terse_core::clicks::{Click, ClickKind, ClickTarget, Interned, LinkId, WarningVisit};
use terse_core::{Code, Domain, LinkKey, OwnerId, Timestamp};

/// The columns with texts, in the order of [`TableRow::texts`].
pub(crate) const TEXTS: [&str; 15] = [
    "domain",
    "code",
    "address",
    "referrer",
    "country",
    "city",
    "device",
    "browser",
    "system",
    "language",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_term",
    "utm_content",
];
pub(crate) const DOMAIN: usize = 0;
pub(crate) const CODE: usize = 1;
/// The first column that may be unknown.
pub(crate) const FIRST_OPTIONAL: usize = 2;

/// One click.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TableRow {
    pub(crate) at: i64,
    pub(crate) link_created_at: i64,
    pub(crate) took_nanos: u64,
    /// 0 if there is none.
    pub(crate) visitor: u64,
    pub(crate) owner: u64,
    pub(crate) weight: u32,
    pub(crate) kind: ClickKind,
    /// Whether the visitor saw the warning page and went on.
    pub(crate) went_on: bool,
    /// Numbers of texts; 0 if unknown.
    pub(crate) texts: [u32; TEXTS.len()],
}

/// Clicks of links.
#[derive(Debug)]
pub(crate) struct ClickTable {
    /// Number 0 means unknown.
    texts: Vec<Interned>,
    numbers: HashMap<Interned, u32>,
    pub(crate) rows: Vec<TableRow>,
}

impl Default for ClickTable {
    fn default() -> Self {
        Self { texts: vec!["".into()], numbers: HashMap::new(), rows: Vec::new() }
    }
}

impl ClickTable {
    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let (text, number) = (Interned::from(text), self.texts.len() as u32);
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// The text of a number; `None` if it is unknown.
    pub(crate) fn text(&self, number: u32) -> Option<&Interned> {
        self.texts.get(number as usize).filter(|_| number != 0)
    }

    /// Appends a click. Visits that led to no link are left out.
    pub(crate) fn push(&mut self, click: &Click) {
        let ClickTarget::Link(LinkId { key, created_at }, owner) = &click.target else { return };
        let mut texts = [0; TEXTS.len()];
        texts[DOMAIN] = self.number(key.domain.as_str());
        texts[CODE] = self.number(key.code.as_str());
        let optional = [
            &click.address,
            &click.referrer,
            &click.country,
            &click.city,
            &click.device,
            &click.browser,
            &click.system,
            &click.language,
        ];
        let optional = optional.into_iter().chain(&click.utm);
        for (number, text) in texts[FIRST_OPTIONAL..].iter_mut().zip(optional) {
            if let Some(text) = text {
                *number = self.number(text);
            }
        }
        self.rows.push(TableRow {
            at: click.at.as_ms(),
            link_created_at: created_at.as_ms(),
            took_nanos: click.took_nanos,
            visitor: click.visitor.unwrap_or(0),
            owner: owner.0,
            weight: click.weight,
            kind: click.kind(),
            went_on: click.warning == WarningVisit::Passed,
            texts,
        });
    }

    /// A click; `None` if its code is not one.
    pub(crate) fn click(&self, row: &TableRow) -> Option<Click> {
        let text = |column: usize| self.text(row.texts[column]).cloned();
        let code = Code::parse(self.text(row.texts[CODE])?)?;
        let domain = Domain::from_stored(self.text(row.texts[DOMAIN]).map_or("", |text| text));
        let created_at = Timestamp::from_ms(row.link_created_at);
        let link = LinkId { key: LinkKey { domain, code }, created_at };
        let warning = if row.went_on { WarningVisit::Passed } else { WarningVisit::None };
        Some(Click {
            at: Timestamp::from_ms(row.at),
            target: ClickTarget::Link(link, OwnerId(row.owner)),
            weight: row.weight,
            took_nanos: row.took_nanos,
            visitor: (row.visitor != 0).then_some(row.visitor),
            address: text(2),
            bot: row.kind.bot(),
            repeat: row.kind == ClickKind::REPEAT,
            warning,
            referrer: text(3),
            country: text(4),
            city: text(5),
            device: text(6),
            browser: text(7),
            system: text(8),
            language: text(9),
            utm: [text(10), text(11), text(12), text(13), text(14)],
        })
    }

    /// Orders the clicks by link and time, and clicks of one millisecond by everything else: the
    /// order depends on the clicks alone.
    pub(crate) fn sort(&mut self) {
        let mut by_text: Vec<u32> = (0..self.texts.len() as u32).collect();
        by_text[1..].sort_unstable_by(|a, b| {
            self.texts[*a as usize].as_bytes().cmp(self.texts[*b as usize].as_bytes())
        });
        let mut rank = vec![0_u32; self.texts.len()];
        for (place, number) in by_text.iter().enumerate() {
            rank[*number as usize] = place as u32;
        }
        self.rows.sort_unstable_by(|a, b| compare(a, b, &rank));
    }
}

fn compare(a: &TableRow, b: &TableRow, rank: &[u32]) -> Ordering {
    let key = |row: &TableRow| {
        let text = |column: usize| rank[row.texts[column] as usize];
        (text(CODE), text(DOMAIN), row.link_created_at, row.at)
    };
    let rest = |row: &TableRow| {
        let texts = row.texts.map(|number| rank[number as usize]);
        let numbers = (row.took_nanos, row.visitor, row.owner, row.weight, row.kind.octet());
        (numbers, row.went_on, texts)
    };
    key(a).cmp(&key(b)).then_with(|| rest(a).cmp(&rest(b)))
}
