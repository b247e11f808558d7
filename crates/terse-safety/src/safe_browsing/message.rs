//! Decodes the protocol's protobuf messages. Unused fields are skipped.

use std::time::Duration;

use super::rice::RiceDeltas;

/// A message that cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the message cannot be read: {0}")]
pub struct MalformedMessage(pub(crate) &'static str);

/// An update of a list (`HashList`).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HashListUpdate {
    pub(crate) name: String,
    pub(crate) version: Vec<u8>,
    pub(crate) partial: bool,
    pub(crate) additions: Option<RiceDeltas>,
    pub(crate) removals: Option<RiceDeltas>,
    pub(crate) wait: Duration,
    pub(crate) checksum: Option<[u8; 32]>,
    /// Whether it has entries that are not four bytes long.
    pub(crate) other_length: bool,
}

impl HashListUpdate {
    /// The name of the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long to wait before the next request. Zero: more updates are available.
    pub fn wait(&self) -> Duration {
        self.wait
    }
}

/// Requested full hashes (`SearchHashesResponse`).
#[derive(Debug, Default)]
pub(crate) struct SearchResponse {
    /// Whether the response contains any hash, dangerous or not.
    pub(crate) any: bool,
    /// The hashes to enforce.
    pub(crate) threats: Vec<[u8; 32]>,
    /// How long the response may be cached.
    pub(crate) ttl: Duration,
}

/// Reads `BatchGetHashListsResponse`.
pub fn read_updates(bytes: &[u8]) -> Result<Vec<HashListUpdate>, MalformedMessage> {
    let mut updates = Vec::new();
    for field in Fields(bytes) {
        if let (1, Value::Bytes(list)) = field? {
            updates.push(read_update(list)?);
        }
    }
    Ok(updates)
}

fn read_update(bytes: &[u8]) -> Result<HashListUpdate, MalformedMessage> {
    let mut update = HashListUpdate::default();
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(name)) => update.name = String::from_utf8_lossy(name).into_owned(),
            (2, Value::Bytes(version)) => update.version = version.to_vec(),
            (3, Value::Number(partial)) => update.partial = partial != 0,
            (4, Value::Bytes(additions)) => update.additions = Some(read_rice_deltas(additions)?),
            (5, Value::Bytes(removals)) => update.removals = Some(read_rice_deltas(removals)?),
            (6, Value::Bytes(wait)) => update.wait = read_duration(wait)?,
            // Empty means absent.
            (7, Value::Bytes([])) => update.checksum = None,
            (7, Value::Bytes(sum)) => {
                update.checksum = Some(
                    sum.try_into()
                        .map_err(|_| MalformedMessage("the checksum must have 32 bytes"))?,
                );
            }
            (9..=11, Value::Bytes(_)) => update.other_length = true,
            _ => {}
        }
    }
    Ok(update)
}

fn read_rice_deltas(bytes: &[u8]) -> Result<RiceDeltas, MalformedMessage> {
    let mut deltas = RiceDeltas::default();
    for field in Fields(bytes) {
        match field? {
            (1, Value::Number(first)) => {
                deltas.first =
                    u32::try_from(first).map_err(|_| MalformedMessage("an entry is too large"))?;
            }
            (2, Value::Number(parameter)) => deltas.parameter = parameter,
            (3, Value::Number(count)) => deltas.count = count,
            (4, Value::Bytes(data)) => deltas.data = data.to_vec(),
            _ => {}
        }
    }
    Ok(deltas)
}

/// Negative durations count as zero.
fn read_duration(bytes: &[u8]) -> Result<Duration, MalformedMessage> {
    let mut duration = Duration::ZERO;
    for field in Fields(bytes) {
        match field? {
            (1, Value::Number(seconds)) if seconds.cast_signed() > 0 => {
                duration += Duration::from_secs(seconds);
            }
            (2, Value::Number(nanos)) if nanos < 1_000_000_000 => {
                duration += Duration::from_nanos(nanos);
            }
            _ => {}
        }
    }
    Ok(duration)
}

/// Reads `SearchHashesResponse`.
pub(crate) fn read_search_response(bytes: &[u8]) -> Result<SearchResponse, MalformedMessage> {
    let mut response = SearchResponse::default();
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(hash)) => {
                response.any = true;
                response.threats.extend(read_threat(hash)?);
            }
            (2, Value::Bytes(ttl)) => response.ttl = read_duration(ttl)?,
            _ => {}
        }
    }
    Ok(response)
}

/// A full hash (`FullHash`), if one of its details is enforced.
fn read_threat(bytes: &[u8]) -> Result<Option<[u8; 32]>, MalformedMessage> {
    let (mut hash, mut enforced) = (None, false);
    for field in Fields(bytes) {
        match field? {
            (1, Value::Bytes(whole)) => {
                hash = Some(
                    whole
                        .try_into()
                        .map_err(|_| MalformedMessage("a full hash must have 32 bytes"))?,
                );
            }
            (2, Value::Bytes(detail)) => enforced |= is_enforced(detail)?,
            _ => {}
        }
    }
    let hash = hash.ok_or(MalformedMessage("a full hash must have 32 bytes"))?;
    Ok(enforced.then_some(hash))
}

/// Whether a detail (`FullHashDetail`) is enforced. Unknown threat types are not, nor are details
/// with attributes: canary lists and frame-only threats.
fn is_enforced(bytes: &[u8]) -> Result<bool, MalformedMessage> {
    let (mut threat, mut attributes) = (0, false);
    for field in Fields(bytes) {
        match field? {
            (1, Value::Number(kind)) => threat = kind,
            // Single or packed.
            (2, Value::Number(_)) => attributes = true,
            (2, Value::Bytes(packed)) => attributes |= !packed.is_empty(),
            _ => {}
        }
    }
    // Malware, social engineering, unwanted software, potentially harmful application.
    Ok((1..=4).contains(&threat) && !attributes)
}

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Fixed 32 or 64 bits, which no field in use has.
    Fixed,
}

/// Iterates over the fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u64, Value<'a>), MalformedMessage> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.bytes(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.bytes(length)?)
            }
            5 => self.bytes(4).map(|_| Value::Fixed)?,
            _ => return Err(MalformedMessage("unknown wire type")),
        };
        Ok((tag >> 3, value))
    }

    /// A varint: seven bits per byte, lowest first.
    fn number(&mut self) -> Result<u64, MalformedMessage> {
        let mut number = 0;
        for at in 0..10 {
            let (byte, rest) =
                self.0.split_first().ok_or(MalformedMessage("unexpected end of message"))?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(MalformedMessage("a varint has more than ten bytes"))
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], MalformedMessage> {
        let length =
            usize::try_from(length).map_err(|_| MalformedMessage("unexpected end of message"))?;
        let (bytes, rest) =
            self.0.split_at_checked(length).ok_or(MalformedMessage("unexpected end of message"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encoded by hand from the published definition: tag and value of each field.
    #[test]
    fn a_list_is_read() {
        let bytes = [
            &[0x0a, 58][..], // hash_lists
            &[0x0a, 5][..],
            b"se-4b",                                                // name
            &[0x12, 2, 9, 9],                                        // version
            &[0x18, 1],                                              // partial_update
            &[0x22, 9, 0x08, 0x96, 0x01, 0x10, 3, 0x18, 1, 0x22, 0], // additions_four_bytes
            &[0x2a, 2, 0x08, 7],                                     // compressed_removals
            &[0x32, 3, 0x08, 0xac, 0x02],                            // minimum_wait_duration
            &[0x42, 2, 0x30, 2],                                     // metadata, not used
            &[0x78, 5],                                              // an unknown field
            &[0x7d, 1, 2, 3, 4],                                     // an unknown field
            &[0x79, 1, 2, 3, 4, 5, 6, 7, 8],
        ]
        .concat();
        let bytes = [&bytes[..1], &[u8::try_from(bytes.len() - 2).unwrap()], &bytes[2..]].concat();
        let want = HashListUpdate {
            name: "se-4b".into(),
            version: vec![9, 9],
            partial: true,
            additions: Some(RiceDeltas { first: 150, parameter: 3, count: 1, data: vec![] }),
            removals: Some(RiceDeltas { first: 7, ..RiceDeltas::default() }),
            wait: Duration::from_secs(300),
            checksum: None,
            other_length: false,
        };
        assert_eq!(read_updates(&bytes), Ok(vec![want]));
        for cut in 1..bytes.len() {
            assert!(read_updates(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn only_known_details_without_attributes_are_enforced() {
        for (detail, counts) in [
            (&[0x08, 1][..], true),
            (&[0x08, 4], true),
            (&[0x08, 5], false),
            (&[], false),
            (&[0x08, 2, 0x12, 1, 1], false),
            (&[0x08, 2, 0x10, 2], false),
            (&[0x08, 2, 0x12, 1, 9], false),
            (&[0x08, 2, 0x12, 0], true),
        ] {
            let mut hash = vec![0x0a, 32];
            hash.extend([7; 32]);
            hash.extend([&[0x12, u8::try_from(detail.len()).unwrap()], detail].concat());
            let mut found = vec![0x0a, u8::try_from(hash.len()).unwrap()];
            found.extend(hash);
            found.extend([0x12, 4, 0x08, 5, 0x10, 1]);
            let found = read_search_response(&found).unwrap();
            assert_eq!((found.any, found.threats.len()), (true, usize::from(counts)), "{detail:?}");
            assert_eq!(found.ttl, Duration::new(5, 1));
        }
        assert!(read_search_response(&[0x0a, 3, 0x0a, 1, 7]).is_err(), "a short hash");
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (read_updates(&bytes), read_search_response(&bytes));
        }
    }
}
