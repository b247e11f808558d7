//! The options of a link's own social preview, for `shorten` and `edit`.

use clap::Args;
use serde_json::{Value, json};

/// The options of a social preview.
#[derive(Args, Debug, Default)]
pub(super) struct PreviewArgs {
    /// The title that chats and social networks show instead of the target's
    #[arg(long, value_name = "TEXT")]
    preview_title: Option<String>,
    /// The description that they show
    #[arg(long, value_name = "TEXT")]
    preview_description: Option<String>,
    /// The address of the image that they show
    #[arg(long, value_name = "URL")]
    preview_image: Option<String>,
}

impl PreviewArgs {
    /// The preview for the API; `None` if no option is given.
    pub(super) fn body(&self) -> Option<Value> {
        let Self { preview_title: title, preview_description: description, preview_image } = self;
        if title.is_none() && description.is_none() && preview_image.is_none() {
            return None;
        }
        Some(json!({ "title": title, "description": description, "image_url": preview_image }))
    }
}
