//! Links while nodes of an earlier version run.
#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Arc;

use terse_core::link_codec::{CodecLimit, LATEST};
use terse_core::*;
use terse_testkit::MemoryStore;

use crate::erasing::links_on;

const OWNER: Caller = Caller::Owner(OwnerId(1000));

fn preview() -> RawPreview {
    RawPreview { title: Some("A title".into()), ..RawPreview::default() }
}

fn link(preview: Option<RawPreview>) -> CreateLink {
    let long_url = "https://example.com/".into();
    CreateLink { long_url, preview, reuse: Some(false), ..CreateLink::default() }
}

#[tokio::test]
async fn no_link_gets_a_field_that_an_earlier_node_cannot_read() {
    let limit = CodecLimit::default();
    let links = links_on(Arc::new(MemoryStore::new())).with_codec_limit(limit.clone());
    let with_preview = LinkPatch { preview: PatchField::Set(preview()), ..LinkPatch::default() };
    let titled = LinkPatch { title: PatchField::Set("Mine".into()), ..LinkPatch::default() };
    let before = links.create(OWNER, link(Some(preview())), None).await.unwrap().link;
    limit.set(LATEST - 1);
    let refused = links.create(OWNER, link(Some(preview())), None).await;
    assert!(matches!(refused, Err(LinkError::EarlierNodes)), "{refused:?}");
    let plain = links.create(OWNER, link(None), None).await.unwrap().link;
    let refused = links.patch(OWNER, &plain.key, &with_preview, None).await;
    assert!(matches!(refused, Err(LinkError::EarlierNodes)), "{refused:?}");
    assert_eq!(links.get(OWNER, &plain.key).await.unwrap(), plain, "nothing changed");
    links.patch(OWNER, &plain.key, &titled, None).await.unwrap();
    // A link that has the field already can be changed.
    links.patch(OWNER, &before.key, &titled, None).await.unwrap();
    limit.set(LATEST);
    links.patch(OWNER, &plain.key, &with_preview, None).await.unwrap();
}
