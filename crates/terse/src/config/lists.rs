//! The sources of blocklists and warn lists.

use terse_safety::ListSource;

use super::node::{Leaf, RawValue};

/// Blocklists or warn lists, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lists(pub Vec<ListSource>);

impl Leaf for Lists {
    const KIND: &'static str = "list of files and URLs";

    fn read(given: RawValue) -> Result<Self, String> {
        let texts = Vec::<String>::read(given)?;
        texts.iter().map(|text| ListSource::parse(text.trim())).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Option<toml::Value> {
        Some(self.0.iter().map(ListSource::shown).collect::<Vec<_>>().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_the_address_of_a_feed_is_not_shown() {
        let lists = Lists(vec![ListSource::parse("https://feeds.example/x?key=hunter2").unwrap()]);
        assert_eq!(
            lists.show(),
            Some(vec!["feeds.example=https://feeds.example/x?[hidden]".to_owned()].into())
        );
    }
}
