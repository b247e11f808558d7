//! The preview of a link that its owner wrote: what chats and social networks show of it instead of
//! the preview of its target.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::target::{Target, TargetRules};
use crate::validation::{ValidationError, ValidationErrorKind};

/// The longest title, in characters.
pub const MAX_PREVIEW_TITLE: usize = 200;
/// The longest description, in characters.
pub const MAX_PREVIEW_DESCRIPTION: usize = 500;
/// The longest address of an image, in bytes.
pub const MAX_PREVIEW_IMAGE_URL: usize = 2048;

/// A preview as it was sent, not yet checked.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawPreview {
    /// The title.
    #[serde(default)]
    pub title: Option<String>,
    /// The description.
    #[serde(default)]
    pub description: Option<String>,
    /// The address of an image.
    #[serde(default, alias = "imageUrl")]
    pub image_url: Option<String>,
}

/// A preview with at least one of its fields.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SocialPreview {
    title: Option<Box<str>>,
    description: Option<Box<str>>,
    image_url: Option<Target>,
}

impl SocialPreview {
    /// Checks a preview. `None` if it has no field.
    pub fn parse(sent: &RawPreview, rules: &TargetRules) -> Result<Option<Self>, ValidationError> {
        let RawPreview { title, description, image_url } = sent;
        let preview = Self {
            title: one_line("preview.title", title.as_deref(), MAX_PREVIEW_TITLE)?,
            description: one_line(
                "preview.description",
                description.as_deref(),
                MAX_PREVIEW_DESCRIPTION,
            )?,
            image_url: match image_url.as_deref().map(str::trim) {
                None | Some("") => None,
                Some(text) => Some(image(text, rules)?),
            },
        };
        let is_empty =
            preview.title.is_none() && preview.description.is_none() && preview.image_url.is_none();
        Ok((!is_empty).then_some(preview))
    }

    /// The title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The description.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The address of the image.
    pub fn image_url(&self) -> Option<&Target> {
        self.image_url.as_ref()
    }

    /// The preview in the API.
    pub fn to_json(&self) -> Value {
        json!({
            "title": self.title(),
            "description": self.description(),
            "image_url": self.image_url().map(Target::as_str),
        })
    }

    /// The stored form.
    pub fn show(&self) -> String {
        self.to_json().to_string()
    }

    /// Reads the stored form; `None` if it cannot be read.
    pub fn from_stored(text: &str) -> Option<Self> {
        let RawPreview { title, description, image_url } = serde_json::from_str(text).ok()?;
        Some(Self {
            title: title.map(Into::into),
            description: description.map(Into::into),
            image_url: image_url.map(Target::from_stored),
        })
    }
}

/// A text of one line, trimmed; control characters become spaces. `None` if it is empty.
fn one_line(
    field: &'static str,
    text: Option<&str>,
    max: usize,
) -> Result<Option<Box<str>>, ValidationError> {
    let Some(text) = text else { return Ok(None) };
    if text.chars().count() > max {
        let detail = format!("at most {max} characters");
        return Err(ValidationError::new(ValidationErrorKind::InvalidRequest, field, detail));
    }
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = clean.trim();
    Ok((!clean.is_empty()).then(|| clean.into()))
}

fn image(text: &str, rules: &TargetRules) -> Result<Target, ValidationError> {
    const FIELD: &str = "preview.image_url";
    let image = Target::parse(text, rules).map_err(|error| error.on(FIELD))?;
    if image.as_str().len() > MAX_PREVIEW_IMAGE_URL {
        let detail =
            format!("the address of an image may have at most {MAX_PREVIEW_IMAGE_URL} bytes");
        return Err(ValidationError::new(ValidationErrorKind::InvalidUrl, FIELD, detail));
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(title: &str, image_url: &str) -> Result<Option<SocialPreview>, ValidationError> {
        let sent = RawPreview {
            title: Some(title.to_owned()),
            description: None,
            image_url: Some(image_url.to_owned()),
        };
        SocialPreview::parse(&sent, &TargetRules::default())
    }

    #[test]
    fn a_preview_is_clean_and_comes_back_from_its_stored_form() {
        let preview = parse(" Sale\n now ", "https://cdn.example/a.png").unwrap().unwrap();
        assert_eq!(preview.title(), Some("Sale  now"));
        assert_eq!(preview.description(), None);
        assert_eq!(SocialPreview::from_stored(&preview.show()), Some(preview));
        assert_eq!(parse("  ", "").unwrap(), None, "nothing is set");
    }

    #[test]
    fn what_is_too_long_or_no_public_address_is_refused_by_its_field() {
        let long = format!("https://cdn.example/{}", "a".repeat(MAX_PREVIEW_IMAGE_URL));
        for (title, image_url, field) in [
            (&*"é".repeat(MAX_PREVIEW_TITLE + 1), "", "preview.title"),
            ("x", "javascript:alert(1)", "preview.image_url"),
            ("x", "a.png", "preview.image_url"),
            ("x", &long, "preview.image_url"),
        ] {
            assert_eq!(parse(title, image_url).unwrap_err().field, field, "{image_url}");
        }
        assert!(parse(&"é".repeat(MAX_PREVIEW_TITLE), "").is_ok());
    }
}
