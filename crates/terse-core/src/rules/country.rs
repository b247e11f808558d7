//! ISO 3166-1 country codes.

use std::fmt;

/// The assigned ISO 3166-1 alpha-2 codes, and `XK`, which GeoIP databases use for Kosovo.
const ALL: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL \
    BM BN BO BQ BR BS BT BV BW BY BZ \
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES \
    ET FI FJ FK FM FO FR GA GB GD \
    GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS \
    IT JE JM JO JP KE KG KH KI KM \
    KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ \
    MR MS MT MU MV MW MX MY MZ NA \
    NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU \
    RW SA SB SC SD SE SG SH SI SJ \
    SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM \
    US UY UZ VA VC VE VG VI VN VU \
    WF WS XK YE YT ZA ZM ZW";

/// An assigned country code.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct Country(&'static str);

impl Country {
    /// Parses two letters in any case.
    pub(super) fn parse(text: &str) -> Option<Self> {
        ALL.split_ascii_whitespace().find(|code| code.eq_ignore_ascii_case(text)).map(Self)
    }

    /// Two upper-case letters.
    pub(super) fn as_str(&self) -> &'static str {
        self.0
    }
}

/// The canonical code of a country; `None` if it is not assigned.
pub fn parse_country(text: &str) -> Option<&'static str> {
    Country::parse(text).map(|country| country.as_str())
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_assigned_code_is_known() {
        let all: Vec<&str> = ALL.split_ascii_whitespace().collect();
        assert_eq!(all.len(), 249 + 1);
        assert!(all.is_sorted() && all.iter().all(|code| code.len() == 2));
        assert_eq!(Country::parse("de").map(|country| country.as_str()), Some("DE"));
        for none in ["UK", "EU", "", "D", "DEU", "Ä"] {
            assert_eq!(Country::parse(none), None, "{none}");
        }
    }
}
