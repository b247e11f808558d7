//! Serves the web plane on a free port with a store in memory, to look at the pages and to try the
//! API: `cargo run -p terse-server --example preview`. The key is `terse_preview`.

#[path = "../tests/it/fake.rs"]
mod fake;
#[path = "../tests/it/fake_clicks.rs"]
mod fake_clicks;

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use terse_core::*;
use terse_server::{AccountSettings, AdminKeys, ApiStats, AppState, Passwords, RateLimits, router};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "0".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let address = listener.local_addr()?;
    let base = url::Url::parse(&format!("http://{address}/"))?;
    let hosts = Hosts::new(&base, &["localhost"], vec![]).ok_or("no host")?;
    let rules = LinkPolicy {
        targets: TargetRules { hosts: Some(hosts.clone()), ..TargetRules::default() },
        hosts,
        anonymous_create: std::env::var_os("CLOSED").is_none(),
        anonymous_ttl: Duration::from_secs(8 * 3600),
        grace: Duration::from_secs(7 * 86_400),
        keep_expired: Duration::from_secs(7 * 86_400),
        quarantine: Duration::ZERO,
        unwanted_aliases: Default::default(),
    };
    let codes = Arc::new(RandomCodes::new(Alphabet::Base62, 7));
    let passwords = Passwords::new(1);
    let links = Links::new(
        fake::Fake::new(),
        codes,
        Arc::new(NoRouteCache),
        Arc::new(NoScreening),
        rules,
        Clock::default(),
    );
    let links = Arc::new(links.with_passwords(Arc::new(passwords.clone())));
    let keys = AdminKeys::new(vec![AdminKeys::hash("terse_preview")]);
    let (_stop, stop) = tokio::sync::watch::channel(false);
    let app = router(AppState {
        links,
        keys,
        registry: Arc::new(terse_testkit::MemoryRegistry::new()),
        registry_refresh: Arc::new(terse_core::accounts::NoRefresh),
        passwords,
        operator: Arc::default(),
        accounts: AccountSettings::closed(),
        used_keys: Arc::new(terse_core::accounts::NoKeyUse),
        classifier: Arc::new(terse_core::rules::NoClassifier),
        cursor_key: [0; 32],
        pass_key: [0; 32],
        two_factor_key: terse_core::accounts::TwoFactorKey::new([0; 32]),
        reporter_key: [0; 32],
        limits: RateLimits::off(),
        stats: Arc::new(ApiStats::default()),
        clicks: fake_clicks::FakeClicks::new(),
        live: Arc::default(),
        webhooks: None,
        mail: None,
        jobs: Arc::default(),
        self_check: Arc::new(NoSelfCheck),
        system_info: Arc::new(terse_core::NoSystemInfo),
        lookup: Arc::new(terse_core::NoLookup),
        certificates: Arc::new(NoCertificates),
        http: terse_server::HttpSettings::default(),
        stop,
    });
    println!("http://{address}/");
    loop {
        let (socket, _) = listener.accept().await?;
        let service = TowerToHyperService::new(app.clone());
        tokio::spawn(async move {
            let _ = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}
