//! The country and city of an address.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use maxminddb::Reader;
use serde::Deserialize;
use terse_core::clicks::Interned;
use terse_core::{Timestamp, is_public_address};
use tracing::{info, warn};

use super::text::printable;

static COUNTRIES: &[u8] = include_bytes!("../../data/countries.mmdb");
/// The file is looked at no more often than this.
const CHECK_INTERVAL_MS: u64 = 10_000;
/// A larger file is not a database of places.
const MAX_FILE_SIZE: u64 = 2 << 30;
const MAX_CITY_LEN: usize = 80;

/// Tells where addresses are.
#[derive(Debug)]
pub(crate) struct GeoDatabase {
    reader: Reader<DatabaseBytes>,
    /// The countries there are, so that their clicks share one text.
    countries: HashMap<[u8; 2], Interned>,
    watched: Option<WatchedFile>,
}

/// The octets of a database. Those of a file are read into memory rather than mapped: whoever
/// writes a new one over the old one would otherwise end the process.
#[derive(Debug)]
enum DatabaseBytes {
    Shipped,
    File(Vec<u8>),
}

impl AsRef<[u8]> for DatabaseBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Shipped => COUNTRIES,
            Self::File(bytes) => bytes,
        }
    }
}

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// How the file was when it was last read, or when reading it failed.
    seen: Option<(SystemTime, u64)>,
    looked_ms: i64,
}

impl GeoDatabase {
    /// From the file, or without one from the countries that are shipped.
    pub(crate) fn open(path: Option<PathBuf>, now: Timestamp) -> io::Result<Self> {
        let Some(path) = path else {
            let reader = Reader::from_source(DatabaseBytes::Shipped).map_err(broken)?;
            return Ok(Self { reader, countries: HashMap::new(), watched: None });
        };
        let seen = file_version(&path)?;
        let reader = read(&path)?;
        Ok(Self {
            reader,
            countries: HashMap::new(),
            watched: Some(WatchedFile { path, seen: Some(seen), looked_ms: now.as_ms() }),
        })
    }

    /// Reads the file again if it has changed. Whether it did; a file that cannot be read leaves
    /// all as it is.
    pub(crate) fn refresh(&mut self, now: Timestamp) -> bool {
        let Some(watched) = &mut self.watched else { return false };
        // A clock that was turned back must not keep us from looking.
        if now.as_ms().abs_diff(watched.looked_ms) < CHECK_INTERVAL_MS {
            return false;
        }
        watched.looked_ms = now.as_ms();
        let state = file_version(&watched.path).ok();
        if state == watched.seen {
            return false;
        }
        watched.seen = state;
        match read(&watched.path) {
            Ok(reader) => {
                info!(path = %watched.path.display(), "read the changed file of places");
                self.reader = reader;
                true
            }
            Err(error) => {
                warn!(path = %watched.path.display(), %error, "the changed file of places cannot \
                    be read; the one before stays in use");
                false
            }
        }
    }

    /// Country and city of an address.
    pub(crate) fn find(&mut self, address: IpAddr) -> (Option<Interned>, Option<Interned>) {
        if !is_public_address(address) {
            return (None, None);
        }
        let found = self
            .reader
            .lookup(address)
            .ok()
            .and_then(|found| found.decode::<Entry<'_>>().ok().flatten());
        let Some(entry) = found else { return (None, None) };
        let country = entry.country_code.or(entry.country.and_then(|country| match country {
            Country::Nested { iso_code } => iso_code,
            Country::Flat(code) => Some(code),
        }));
        let country =
            country.and_then(|code| <[u8; 2]>::try_from(code.to_ascii_uppercase().as_bytes()).ok());
        let country = country.filter(|code| {
            code.iter().all(u8::is_ascii_alphabetic) && code != b"ZZ" && code != b"XX"
        });
        let country = country.map(|code| {
            // At most 26 times 26 of them.
            let known = self.countries.entry(code);
            known.or_insert_with(|| String::from_iter(code.map(char::from)).into()).clone()
        });
        let city = entry.city.and_then(|city| match city {
            City::Nested { names } => names.en,
            City::Flat(name) => Some(name),
        });
        let city = city.and_then(|city| printable(city, MAX_CITY_LEN));
        let city = city.map(|city| match &country {
            Some(country) => format!("{city}, {country}").into(),
            None => city,
        });
        (country, city)
    }
}

pub(super) fn file_version(path: &Path) -> io::Result<(SystemTime, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

fn read(path: &Path) -> io::Result<Reader<DatabaseBytes>> {
    if fs::metadata(path)?.len() > MAX_FILE_SIZE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    Reader::from_source(DatabaseBytes::File(fs::read(path)?)).map_err(broken)
}

fn broken(error: maxminddb::MaxMindDbError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// MaxMind's files are nested, those of others flat.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    country: Option<Country<'a>>,
    #[serde(borrow, default)]
    country_code: Option<&'a str>,
    #[serde(borrow, default)]
    city: Option<City<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Country<'a> {
    Flat(#[serde(borrow)] &'a str),
    Nested {
        #[serde(borrow, default)]
        iso_code: Option<&'a str>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum City<'a> {
    Flat(#[serde(borrow)] &'a str),
    Nested {
        #[serde(borrow, default)]
        names: Names<'a>,
    },
}

#[derive(Default, Deserialize)]
struct Names<'a> {
    #[serde(borrow, default)]
    en: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::mmdb;
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn find(places: &mut GeoDatabase, address: &str) -> (String, String) {
        let (country, city) = places.find(address.parse().unwrap());
        (country.as_deref().unwrap_or_default().into(), city.as_deref().unwrap_or_default().into())
    }

    #[test]
    fn countries_work_out_of_the_box() {
        let mut places = GeoDatabase::open(None, at(0)).unwrap();
        for (address, want) in [
            ("8.8.8.0", "US"),
            ("193.0.6.0", "NL"),
            ("133.11.0.0", "JP"),
            ("200.160.0.0", "BR"),
            ("141.20.1.0", "DE"),
            ("2001:67c:2e8::", "NL"),
            ("2001:4860:4860::", "US"),
            ("127.0.0.1", ""),
            ("10.1.2.0", ""),
            ("192.168.1.0", ""),
            ("::1", ""),
            ("fe80::1", ""),
            ("fd00::1", ""),
            ("203.0.113.0", ""),
        ] {
            assert_eq!(find(&mut places, address), (want.to_owned(), String::new()), "{address}");
        }
    }

    #[test]
    fn both_shapes_of_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("places.mmdb");
        for (entry, want) in [
            (mmdb::nested("DE", "Berlin"), ("DE", "Berlin, DE")),
            (mmdb::flat("de", "Berlin"), ("DE", "Berlin, DE")),
            (mmdb::flat("ZZ", "Nowhere"), ("", "Nowhere")),
            (mmdb::flat("Germany", ""), ("", "")),
            (mmdb::map(&[("other", mmdb::text("x"))]), ("", "")),
            (
                mmdb::map(&[("country", mmdb::text("FR")), ("city", mmdb::text("Lyon\n"))]),
                ("FR", "Lyon, FR"),
            ),
            (mmdb::map(&[("country", mmdb::map(&[])), ("city", mmdb::map(&[]))]), ("", "")),
            (mmdb::text("not a map"), ("", "")),
        ] {
            fs::write(&path, mmdb::file(&entry)).unwrap();
            let mut places = GeoDatabase::open(Some(path.clone()), at(0)).unwrap();
            assert_eq!(find(&mut places, "8.8.8.8"), (want.0.to_owned(), want.1.to_owned()));
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("places.mmdb");
        assert!(
            GeoDatabase::open(Some(path.clone()), at(0)).is_err(),
            "a missing file is noticed at the start"
        );
        fs::write(&path, "not a database").unwrap();
        assert!(GeoDatabase::open(Some(path.clone()), at(0)).is_err(), "and a broken one");
        fs::write(&path, mmdb::file(&mmdb::flat("DE", "Berlin"))).unwrap();
        let mut places = GeoDatabase::open(Some(path.clone()), at(0)).unwrap();
        assert_eq!(find(&mut places, "8.8.8.8").1, "Berlin, DE");

        fs::write(&path, mmdb::file(&mmdb::flat("FR", "Paris-sur-Seine"))).unwrap();
        assert!(!places.refresh(at(9_999)), "not looked at all the time");
        assert!(places.refresh(at(10_000)));
        assert_eq!(find(&mut places, "8.8.8.8").1, "Paris-sur-Seine, FR");
        assert!(!places.refresh(at(20_000)), "unchanged");

        fs::write(&path, "broken").unwrap();
        assert!(!places.refresh(at(30_000)) && !places.refresh(at(40_000)));
        fs::remove_file(&path).unwrap();
        assert!(!places.refresh(at(50_000)));
        assert_eq!(find(&mut places, "8.8.8.8").1, "Paris-sur-Seine, FR");

        fs::write(&path, mmdb::file(&mmdb::flat("IT", "Roma"))).unwrap();
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        assert!(places.refresh(at(1_000)), "though the clock was turned back");
        assert_eq!(find(&mut places, "8.8.8.8").1, "Roma, IT");
    }

    #[test]
    fn a_damaged_database_never_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("places.mmdb");
        let whole = mmdb::file(&mmdb::nested("DE", "Berlin"));
        for at_octet in 0..whole.len() {
            for change in [0xff, 0x80, 0x01] {
                let mut damaged = whole.clone();
                damaged[at_octet] ^= change;
                fs::write(&path, &damaged).unwrap();
                if let Ok(mut places) = GeoDatabase::open(Some(path.clone()), at(0)) {
                    find(&mut places, "8.8.8.8");
                    find(&mut places, "2001:4860:4860::");
                }
            }
            fs::write(&path, &whole[..at_octet]).unwrap();
            drop(GeoDatabase::open(Some(path.clone()), at(0)));
        }
    }
}
