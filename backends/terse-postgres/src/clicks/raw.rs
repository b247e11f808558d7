//! The stored form of a single click.

use serde::{Deserialize, Serialize};
use terse_core::Timestamp;
use terse_core::clicks::{Click, ClickKind, ClickTarget, Interned, WarningVisit};

/// The version that [`encode`] writes, as the first octet.
const VERSION: u8 = 1;

/// The fields of version 1, in postcard. Never changed: another shape is another version.
#[derive(Deserialize, Serialize)]
struct ClickV1<'a> {
    weight: u32,
    took_nanos: u64,
    visitor: Option<u64>,
    kind: u8,
    /// 0 none, 1 shown, 2 passed.
    warning: u8,
    #[serde(borrow)]
    texts: [Option<&'a str>; 8],
    #[serde(borrow)]
    utm: [Option<&'a str>; 5],
}

/// A click without its time and target, which are columns of their own.
pub(super) fn encode(click: &Click) -> Vec<u8> {
    fn text(value: &Option<Interned>) -> Option<&str> {
        value.as_deref()
    }
    let fields = ClickV1 {
        weight: click.weight,
        took_nanos: click.took_nanos,
        visitor: click.visitor,
        kind: click.kind().octet(),
        warning: click.warning.octet(),
        texts: [
            text(&click.address),
            text(&click.referrer),
            text(&click.country),
            text(&click.city),
            text(&click.device),
            text(&click.browser),
            text(&click.system),
            text(&click.language),
        ],
        utm: click.utm.each_ref().map(text),
    };
    postcard::to_extend(&fields, vec![VERSION])
        .expect("plain fields are always written into memory")
}

/// `None` for bytes that no version of terse wrote.
pub(super) fn decode(bytes: &[u8], at_ms: i64, target: ClickTarget) -> Option<Click> {
    let (&version, fields) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    let fields: ClickV1<'_> = postcard::from_bytes(fields).ok()?;
    let kind = ClickKind::from_octet(fields.kind)?;
    let warning = WarningVisit::from_octet(fields.warning)?;
    let [address, referrer, country, city, device, browser, system, language] =
        fields.texts.map(|text| text.map(Interned::from));
    Some(Click {
        at: Timestamp::from_ms(at_ms),
        target,
        weight: fields.weight,
        took_nanos: fields.took_nanos,
        visitor: fields.visitor,
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
        utm: fields.utm.map(|text| text.map(Interned::from)),
    })
}
