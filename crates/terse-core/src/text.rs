//! Titles, notes and tags.

use crate::validation::{ValidationError, ValidationErrorKind};

/// A title: up to [`Title::MAX`] characters, without control characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Title(Box<str>);

impl Title {
    /// The longest title, in characters.
    pub const MAX: usize = 1000;

    /// Trims the title and replaces control characters by spaces. `None` if it is empty.
    pub fn parse(text: &str) -> Result<Option<Self>, ValidationError> {
        check_length("title", "a title", text, Self::MAX)?;
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let clean = clean.trim();
        Ok((!clean.is_empty()).then(|| Self(clean.into())))
    }

    /// Reads a stored title.
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }

    /// The title as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Private notes of the owner: up to [`Notes::MAX`] characters on any number of lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notes(Box<str>);

impl Notes {
    /// The longest notes, in characters.
    pub const MAX: usize = 2000;

    /// Trims the notes, normalises line breaks to `\n`, keeps tabs and replaces other control
    /// characters by spaces. `None` if they are empty.
    pub fn parse(text: &str) -> Result<Option<Self>, ValidationError> {
        check_length("notes", "notes", text, Self::MAX)?;
        let lines = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = lines
            .chars()
            .map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c })
            .collect();
        let clean = clean.trim();
        Ok((!clean.is_empty()).then(|| Self(clean.into())))
    }

    /// Reads stored notes.
    pub fn from_stored(text: String) -> Self {
        Self(text.into())
    }

    /// The notes as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Refuses a text of more than `max` characters. `subject` names it in the message.
fn check_length(
    field: &'static str,
    subject: &str,
    text: &str,
    max: usize,
) -> Result<(), ValidationError> {
    if text.chars().count() <= max {
        return Ok(());
    }
    let (thousands, rest) = (max / 1000, max % 1000);
    let detail = format!("{subject} may have at most {thousands},{rest:03} characters");
    Err(ValidationError::new(ValidationErrorKind::InvalidRequest, field, detail))
}

/// Up to [`Tags::MAX`] distinct tags of up to [`Tags::MAX_LENGTH`] characters, in the given order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tags(Vec<Box<str>>);

impl Tags {
    /// The largest number of tags of a link.
    pub const MAX: usize = 20;
    /// The largest number of characters of a tag.
    pub const MAX_LENGTH: usize = 50;

    /// Checks the length of a tag, of a link or to search for.
    pub fn check_length(tag: &str) -> Result<(), ValidationError> {
        if (1..=Self::MAX_LENGTH).contains(&tag.chars().count()) {
            return Ok(());
        }
        let detail = format!("a tag must have 1 to {} characters", Self::MAX_LENGTH);
        Err(ValidationError::new(ValidationErrorKind::InvalidRequest, "tags", detail))
    }

    /// Trims tags. Refuses commas and control characters, so that lists of tags fit into CSV.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, ValidationError> {
        let refuse = |detail: &'static str| {
            Err(ValidationError::new(ValidationErrorKind::InvalidRequest, "tags", detail))
        };
        if texts.len() > Self::MAX {
            let detail = format!("a link may have at most {} tags", Self::MAX);
            return Err(ValidationError::new(ValidationErrorKind::InvalidRequest, "tags", detail));
        }
        let mut tags: Vec<Box<str>> = Vec::with_capacity(texts.len());
        for text in texts {
            let tag = text.as_ref().trim();
            Self::check_length(tag)?;
            if tag.chars().any(|c| c == ',' || c.is_control()) {
                return refuse("a tag must not contain commas or control characters");
            }
            if !tags.iter().any(|have| **have == *tag) {
                tags.push(tag.into());
            }
        }
        Ok(Self(tags))
    }

    /// Reads stored tags, joined by commas.
    pub fn from_stored(joined: &str) -> Self {
        Self(joined.split(',').filter(|tag| !tag.is_empty()).map(Into::into).collect())
    }

    /// The stored form: joined by commas.
    pub fn joined(&self) -> String {
        self.0.join(",")
    }

    /// The tags, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tag| &**tag)
    }

    /// Replaces or removes a tag, without duplicates.
    pub fn replaced(&self, tag: &str, by: Option<&str>) -> Self {
        let mut tags: Vec<Box<str>> = Vec::with_capacity(self.0.len());
        for have in &self.0 {
            let kept = if **have == *tag { by } else { Some(&**have) };
            if let Some(kept) = kept.filter(|kept| !tags.iter().any(|have| **have == **kept)) {
                tags.push(kept.into());
            }
        }
        Self(tags)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_clean_line() {
        assert_eq!(Title::parse("  a\0b\n ").unwrap().unwrap().as_str(), "a b");
        assert_eq!(Title::parse(" \t ").unwrap(), None);
        assert!(Title::parse(&"é".repeat(Title::MAX)).is_ok());
        let error = Title::parse(&"é".repeat(Title::MAX + 1)).unwrap_err();
        assert_eq!(error.detail, "a title may have at most 1,000 characters");
    }

    #[test]
    fn notes_keep_line_breaks_and_tabs_only() {
        assert_eq!(
            Notes::parse(" a\r\nb\rc\n\td\0e\x1b[31m ").unwrap().unwrap().as_str(),
            "a\nb\nc\n\td e [31m"
        );
        assert_eq!(Notes::parse(" \r\n\t ").unwrap(), None);
        assert!(Notes::parse(&"é".repeat(Notes::MAX)).is_ok());
        assert_eq!(Notes::parse(&"é".repeat(Notes::MAX + 1)).unwrap_err().field, "notes");
    }

    #[test]
    fn tags_round_trip_through_their_stored_form() {
        let tags = Tags::parse(&["spring", " sale ", "spring"]).unwrap();
        assert_eq!(tags.joined(), "spring,sale");
        assert_eq!(Tags::from_stored(&tags.joined()), tags);
        for (by, want) in [
            (Some("sale"), "sale"),
            (Some("summer"), "summer,sale"),
            (None, "sale"),
            (Some("spring"), "spring,sale"),
        ] {
            assert_eq!(tags.replaced("spring", by).joined(), want);
        }
        assert_eq!(tags.replaced("Spring", None), tags);
        for bad in [vec!["a,b"], vec![""], vec!["x\n"; 21]] {
            assert!(Tags::parse(&bad).is_err(), "{bad:?}");
        }
    }
}
