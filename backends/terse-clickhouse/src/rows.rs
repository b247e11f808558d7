//! Rows of both tables.

use terse_core::clicks::{
    Batch, Click, ClickKind, ClickSubject, ClickTarget, Interned, LinkId, StoredSum, WarningVisit,
};
use terse_core::{Code, Domain, LinkKey, OwnerId, StoreError, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::client::corrupt;
use crate::row_binary::{Reader, Writer, quoted};

pub(crate) const HOUR: u8 = 1;
pub(crate) const DAY: u8 = 2;

/// How many bits of a click's number are its place in the batch.
const PLACE_BITS: u32 = 24;

/// The number of a click: of its batch, and its place there.
pub(crate) fn click_number(sequence: u64, place: usize) -> Option<u64> {
    let fits = place < 1 << PLACE_BITS && sequence >> (64 - PLACE_BITS) == 0;
    fits.then_some(sequence << PLACE_BITS | place as u64)
}

/// The columns that say whose clicks a row sums up.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct SubjectKey {
    pub(crate) kind: u8,
    pub(crate) domain: String,
    pub(crate) code: String,
    pub(crate) created_at: i64,
    pub(crate) sum_of: u64,
}

impl SubjectKey {
    pub(crate) const COLUMNS: &'static str = "kind, domain, code, link_created_at, sum_of";

    pub(crate) fn of(subject: &ClickSubject) -> Self {
        let plain = |kind, sum_of| Self {
            kind,
            domain: String::new(),
            code: String::new(),
            created_at: 0,
            sum_of,
        };
        match subject {
            ClickSubject::Link(LinkId { key, created_at }) => Self {
                kind: 0,
                domain: key.domain.as_str().to_owned(),
                code: key.code.as_str().to_owned(),
                created_at: created_at.as_ms(),
                sum_of: 0,
            },
            ClickSubject::Owner(OwnerId(owner)) => plain(1, *owner),
            ClickSubject::Everything => plain(2, 0),
            ClickSubject::Orphans => plain(3, 0),
        }
    }

    /// The values of [`Self::COLUMNS`].
    pub(crate) fn values(&self) -> String {
        let Self { kind, domain, code, created_at, sum_of } = self;
        format!("{kind}, {}, {}, {created_at}, {sum_of}", quoted(domain), quoted(code))
    }

    pub(crate) fn read(row: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            kind: row.u8()?,
            domain: row.text()?.to_owned(),
            code: row.text()?.to_owned(),
            created_at: row.i64()?,
            sum_of: row.u64()?,
        })
    }

    fn write(&self, row: &mut Writer) {
        row.u8(self.kind).text(&self.domain).text(&self.code).i64(self.created_at);
        row.u64(self.sum_of);
    }
}

/// Where a sum belongs.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slot {
    pub(crate) subject: SubjectKey,
    pub(crate) unit: u8,
    pub(crate) start: i64,
}

impl Slot {
    /// Seeds the checksum, so that the sum of one row is invalid in another.
    pub(crate) fn seed(&self) -> u64 {
        let mut key = Writer::default();
        self.subject.write(&mut key);
        key.u8(self.unit).i64(self.start);
        xxh3_64(&key.0)
    }

    /// Adds the stored sum of a row here.
    pub(crate) fn merge(&self, sum: &mut StoredSum, bytes: &[u8]) -> Result<(), StoreError> {
        sum.merge_stored(bytes, self.seed()).ok_or_else(|| {
            let (unit, start) = (self.unit, self.start);
            corrupt(format!("a sum (unit {unit}, start {start}) is not what was written there"))
        })
    }

    /// A row with a sum.
    pub(crate) fn write_sum(
        &self,
        rows: &mut Writer,
        sequence: u64,
        owner: OwnerId,
        sum: &StoredSum,
    ) {
        let tally = &sum.tally;
        self.subject.write(rows);
        rows.u8(self.unit).i64(self.start).u64(sequence).u64(0).u64(owner.0);
        rows.i64(tally.last.map_or(i64::MIN, Timestamp::as_ms));
        rows.u64(tally.clicks.humans).u64(tally.clicks.bots).bytes(&sum.encode(self.seed()));
    }

    /// A row that says that others are replaced.
    pub(crate) fn write_marker(&self, rows: &mut Writer, sequence: u64, up_to: u64) {
        self.subject.write(rows);
        rows.u8(self.unit).i64(self.start).u64(sequence).u64(up_to).u64(0).i64(i64::MIN);
        rows.u64(0).u64(0).bytes(&[]);
    }
}

/// A link from its stored columns.
pub(crate) fn read_link(row: &mut Reader<'_>) -> Option<LinkId> {
    let domain = Domain::from_stored(row.text()?);
    let key = LinkKey { domain, code: Code::parse(row.text()?)? };
    Some(LinkId { key, created_at: Timestamp::from_ms(row.i64()?) })
}

/// A list of keys for `(domain, code, link_created_at) IN (…)`.
pub(crate) fn link_list(links: &[LinkId]) -> String {
    let links = links.iter().map(|LinkId { key, created_at }| {
        let (domain, code) = (quoted(key.domain.as_str()), quoted(key.code.as_str()));
        format!("({domain}, {code}, {})", created_at.as_ms())
    });
    links.collect::<Vec<_>>().join(", ")
}

/// Appends the row of a single click on a link.
pub(crate) fn write_click(
    rows: &mut Writer,
    batch: &Batch,
    place: usize,
    sequence: u64,
) -> Result<(), StoreError> {
    let row = batch.clicks.row(place);
    let click = batch.clicks.click(&row);
    let ClickTarget::Link(LinkId { key, created_at }, owner) = &click.target else {
        return Ok(());
    };
    let number = click_number(sequence, place)
        .ok_or_else(|| corrupt("a batch has more clicks than can be numbered"))?;
    rows.text(key.domain.as_str()).text(key.code.as_str()).i64(created_at.as_ms());
    rows.i64(row.at_ms).u64(sequence).u64(number).u64(owner.0).u32(row.weight);
    rows.u64(row.took_nanos).u64(row.visitor).u8(row.kind.octet());
    rows.u8(row.warning.octet());
    for text in [
        &click.address,
        &click.referrer,
        &click.country,
        &click.city,
        &click.device,
        &click.browser,
        &click.system,
        &click.language,
    ] {
        rows.optional_text(text.as_deref());
    }
    for text in &click.utm {
        rows.optional_text(text.as_deref());
    }
    Ok(())
}

/// The columns that [`read_click`] reads.
pub(crate) const CLICK_COLUMNS: &str = "at, number, owner, weight, took_nanos, visitor, kind, \
     warning, address, referrer, country, city, device, browser, system, language, utm_source, \
     utm_medium, utm_campaign, utm_term, utm_content";

/// A click of this link, and its number.
pub(crate) fn read_click(row: &mut Reader<'_>, link: &LinkId) -> Option<(u64, Click)> {
    let at = Timestamp::from_ms(row.i64()?);
    let number = row.u64()?;
    let target = ClickTarget::Link(link.clone(), OwnerId(row.u64()?));
    let (weight, took_nanos, visitor) = (row.u32()?, row.u64()?, row.u64()?);
    let kind = ClickKind::from_octet(row.u8()?)?;
    let warning = WarningVisit::from_octet(row.u8()?)?;
    let mut texts = [const { None }; 13];
    for text in &mut texts {
        *text = row.optional_text()?.map(Interned::from);
    }
    let [address, referrer, country, city, device, browser, system, language, utm @ ..] = texts;
    let click = Click {
        at,
        target,
        weight,
        took_nanos,
        visitor: (visitor != 0).then_some(visitor),
        address,
        bot: kind.bot(),
        repeat: kind == ClickKind::REPEAT,
        warning,
        referrer,
        country,
        city,
        device,
        browser,
        system,
        language,
        utm,
    };
    Some((number, click))
}
