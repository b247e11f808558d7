//! A store of clicks that holds none: stands in until the real one is joined in `serve.rs`.

use async_trait::async_trait;
use terse_core::clicks::{
    Batch, ClickPage, ClickStore, Count, LinkId, Period, RawQuery, Recorded, Report, Retention, Salt, Subject, Tidied,
};
use terse_core::{LinkKey, Moment, OwnerId, StoreError};

pub(crate) struct NoClicks;

#[async_trait]
impl ClickStore for NoClicks {
    async fn positions(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        Ok(Vec::new())
    }

    async fn record(&self, _: &Batch) -> Result<Recorded, StoreError> {
        Err(StoreError::Unavailable("clicks are not counted yet".into()))
    }

    async fn forget_segments(&self, _: &[u64]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn counts(&self, links: &[LinkId]) -> Result<Vec<Count>, StoreError> {
        Ok(vec![Count::default(); links.len()])
    }

    async fn report(&self, _: &Subject, _: Period, _: Moment) -> Result<Report, StoreError> {
        Ok(Report::default())
    }

    async fn clicks(&self, _: &RawQuery) -> Result<ClickPage, StoreError> {
        Ok(ClickPage::default())
    }

    async fn links(&self, _: Option<&LinkId>, _: usize) -> Result<Vec<LinkId>, StoreError> {
        Ok(Vec::new())
    }

    async fn forget_links(&self, _: &[LinkKey], _: Moment) -> Result<(), StoreError> {
        Ok(())
    }

    async fn forget_owner(&self, _: OwnerId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn tidy(&self, _: Retention) -> Result<Tidied, StoreError> {
        Ok(Tidied::default())
    }

    async fn salt(&self, _: i64) -> Result<Salt, StoreError> {
        Err(StoreError::Unavailable("clicks are not counted yet".into()))
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
