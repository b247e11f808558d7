//! OpenID Connect sign-in, including lying providers, manipulated browsers and attackers.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use terse::config::Secret;
use terse_core::registry::Role;

use crate::harness::{Answer, TestTerse};
use crate::oidc_provider::{CLIENT, Provider, SECRET, TokenFault};
use crate::sign_in::{self, PASSWORD};

/// A browser that keeps every cookie.
#[derive(Clone, Default)]
pub(crate) struct CookieJar(BTreeMap<String, String>);

impl CookieJar {
    pub(crate) fn of(cookie: &str) -> Self {
        let (name, value) = cookie.split_once('=').unwrap();
        Self([(name.to_owned(), value.to_owned())].into())
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    pub(crate) fn keep(&mut self, answer: &Answer) {
        for (_, set) in
            answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        {
            let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
            match value {
                "" => drop(self.0.remove(name)),
                value => drop(self.0.insert(name.to_owned(), value.to_owned())),
            }
        }
    }

    pub(crate) fn open(&mut self, terse: &TestTerse, path: &str) -> Answer {
        let answer =
            terse.send("GET", path, &[("accept", "text/html"), ("cookie", &self.text())], None);
        self.keep(&answer);
        answer
    }

    pub(crate) fn post(
        &mut self,
        terse: &TestTerse,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let cookie = self.text();
        let all =
            [("accept", "text/html"), kind, ("origin", "http://go.example"), ("cookie", &*cookie)];
        let answer = terse.send("POST", path, &all, Some(body.as_bytes()));
        self.keep(&answer);
        answer
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

pub(crate) fn start(issuer: &str, sign_up: bool) -> TestTerse {
    TestTerse::with(|config| {
        config.oidc.issuer = Some(issuer.to_owned());
        config.oidc.client_id = Some(CLIENT.into());
        config.oidc.client_secret = Some(Secret::new(SECRET));
        config.oidc.name = Some("Example ID".into());
        config.oidc.sign_up = sign_up;
    })
}

/// Signs in at the provider and returns.
fn sign_in(
    terse: &TestTerse,
    provider: &Provider,
    cookies: &mut CookieJar,
    subject: &str,
) -> Answer {
    let away = cookies.open(terse, "/auth/oidc");
    assert_eq!(away.status, 303, "{}", away.text());
    let back = provider.visit(away.location().unwrap(), subject);
    cookies.open(terse, &back)
}

/// The provider URL on the page that continues to the provider.
fn provider_url(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let address = text
        .split("id=\"continue\" href=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    address.replace("&#38;", "&")
}

#[test]
fn an_unknown_identity_gets_an_account_if_sign_up_is_allowed() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), true);
    assert!(terse.browse("/login").text().contains("Sign in with Example ID"));
    let mut cookies = CookieJar::default();
    let in_ = sign_in(&terse, &provider, &mut cookies, "ann");
    assert_eq!((in_.status, in_.location()), (303, Some("/dashboard")), "{}", in_.text());
    assert!(cookies.has("terse_session") && !cookies.has("terse_flow"));
    let page = cookies.open(&terse, "/account").text();
    assert!(
        page.contains("<h1>ann<") && page.contains("<dd>user</dd>") && page.contains("Example ID"),
        "{page}"
    );
    // The same identity gets the same account; another identity with the same name gets another.
    let mut again = CookieJar::default();
    sign_in(&terse, &provider, &mut again, "ann");
    assert!(again.open(&terse, "/account").text().contains("<h1>ann<"));
    assert_eq!(provider.requests("/.well-known/openid-configuration"), 1, "requested once");
    let mut bob = sign_in::join(&terse, "bob");
    let mut other = CookieJar::default();
    assert_eq!(sign_in(&terse, &provider, &mut other, "bob").status, 303);
    assert!(
        other.open(&terse, "/account").text().contains("<h1>bob@example.com<"),
        "a name alone does not identify an account"
    );
    // The only sign-in method cannot be disconnected.
    assert_eq!(cookies.post(&terse, "/account/disconnect", &[]).status, 409);
    assert_eq!(
        bob.send(&terse, "/account/disconnect", &[]).location(),
        Some("/account?done=disconnected")
    );
}

#[test]
fn without_sign_up_an_account_is_connected_or_an_invitation_taken() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), false);
    let unknown = sign_in(&terse, &provider, &mut CookieJar::default(), "ann");
    assert_eq!(unknown.status, 403);
    assert!(
        unknown.text().contains("No account found")
            && unknown.header("set-cookie").is_some_and(|set| set.starts_with("terse_flow=;"))
    );

    let admin = sign_in::set_up(&terse, "admin");
    let mut cookies = CookieJar::of(&admin.cookie);
    let to = provider_url(&cookies.post(&terse, "/account/connect", &[]));
    let done = cookies.open(&terse, &provider.visit(&to, "ann"));
    assert_eq!(
        (done.status, done.location()),
        (303, Some("/account?done=connected")),
        "{}",
        done.text()
    );
    let mut elsewhere = CookieJar::default();
    assert_eq!(sign_in(&terse, &provider, &mut elsewhere, "ann").status, 303);
    assert!(elsewhere.open(&terse, "/account").text().contains("<dd>admin</dd>"));

    // An invitation gives its role.
    let token = sign_in::invite(&terse, Role::Moderator);
    let mut bob = CookieJar::default();
    assert!(
        bob.open(&terse, &format!("/join?token={token}"))
            .text()
            .contains("Join with Example ID instead")
    );
    let to = provider_url(&bob.post(&terse, "/join/oidc", &[("token", &token)]));
    assert_eq!(bob.open(&terse, &provider.visit(&to, "bob")).status, 303);
    assert!(bob.open(&terse, "/account").text().contains("<dd>moderator</dd>"));
    let mut late = CookieJar::default();
    let to = provider_url(&late.post(&terse, "/join/oidc", &[("token", &token)]));
    assert_eq!(late.open(&terse, &provider.visit(&to, "cid")).status, 404, "good once");

    // An identity of one account cannot be connected to another.
    let mut taker = CookieJar::of(&sign_in::join(&terse, "mallory").cookie);
    let to = provider_url(&taker.post(&terse, "/account/connect", &[]));
    assert_eq!(taker.open(&terse, &provider.visit(&to, "ann")).status, 409);

    assert_eq!(
        cookies.post(&terse, "/account/disconnect", &[]).location(),
        Some("/account?done=disconnected")
    );
    assert_eq!(sign_in(&terse, &provider, &mut CookieJar::default(), "ann").status, 403);
}

#[test]
fn an_invalid_token_is_refused() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), true);
    assert_eq!(sign_in(&terse, &provider, &mut CookieJar::default(), "ann").status, 303);
    for fault in [
        TokenFault::Nonce,
        TokenFault::NoNonce,
        TokenFault::Audience,
        TokenFault::FurtherAudience,
        TokenFault::Issuer,
        TokenFault::Expired,
        TokenFault::Unsigned,
        TokenFault::PublicKeyAsSecret,
        TokenFault::OtherKey,
        TokenFault::Changed,
        TokenFault::NoToken,
    ] {
        provider.fault(fault);
        let mut cookies = CookieJar::default();
        let answer = sign_in(&terse, &provider, &mut cookies, "ann");
        assert_eq!((answer.status, answer.location()), (403, None), "{fault:?} {}", answer.text());
        assert!(cookies.0.is_empty(), "{fault:?} {:?}", cookies.0);
        crate::hostile_html::inert(&answer.text()).unwrap();
    }
    provider.fault(TokenFault::None);
    assert_eq!(
        sign_in(&terse, &provider, &mut CookieJar::default(), "ann").status,
        303,
        "and all is well again"
    );
}

#[test]
fn only_the_browser_that_left_comes_back_and_only_once() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), true);
    let leave = || {
        let mut cookies = CookieJar::default();
        let away = cookies.open(&terse, "/auth/oidc");
        let back = provider.visit(away.location().unwrap(), "ann");
        (cookies, back)
    };
    let refused = |mut cookies: CookieJar, back: &str| {
        let answer = cookies.open(&terse, back);
        assert_eq!(
            (answer.status, cookies.has("terse_session")),
            (403, false),
            "{back} {}",
            answer.text()
        );
        assert_eq!(
            (answer.header("cache-control"), answer.header("referrer-policy")),
            (Some("no-store"), Some("strict-origin"))
        );
    };
    // A browser that did not start the flow, as with an attacker's callback link.
    let (_, back) = leave();
    refused(CookieJar::default(), &back);
    // Another browser's flow.
    let ((mine, _), (_, theirs)) = (leave(), leave());
    refused(mine, &theirs);
    // A wrong or missing state, no code, an error, another issuer, duplicate parameters.
    for change in [
        |back: &str| format!("{back}x"),
        |back: &str| back.split("&state").next().unwrap().to_owned(),
        |back: &str| back.replace("code=", "nocode="),
        |back: &str| {
            back.replace("code=", "error=access_denied&error_description=%3Cscript%3E&nocode=")
        },
        |back: &str| format!("{back}&iss=https%3A%2F%2Fevil.example"),
        |back: &str| format!("{back}&code=another"),
        |back: &str| back.replace("code=", "code=another"),
    ] {
        let (cookies, back) = leave();
        refused(cookies, &change(&back));
    }
    // A modified cookie.
    let (mut cookies, back) = leave();
    let cookie = cookies.0.get_mut("terse_flow").unwrap();
    cookie.replace_range(..1, if cookie.starts_with('A') { "B" } else { "A" });
    refused(cookies, &back);
    // PKCE: a code is worthless without its verifier. An attacker mixes the code of one flow with
    // the cookie of another.
    let ((mut mine, my_back), (_, their_back)) = (leave(), leave());
    let their_code = their_back.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let my_code = my_back.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    let mixed = my_back.replace(&my_code, their_code);
    let answer = mine.open(&terse, &mixed);
    assert_eq!((answer.status, mine.has("terse_session")), (403, false));
    // Replayed, with the deleted cookie kept.
    let (cookies, back) = leave();
    let mut first = cookies.clone();
    assert_eq!(first.open(&terse, &back).status, 303);
    assert_eq!(first.open(&terse, &back).status, 403);
    refused(cookies, &back);
    // After the timeout.
    let (cookies, back) = leave();
    terse.clock().advance(Duration::from_secs(600));
    refused(cookies, &back);
}

#[test]
fn connecting_ends_in_the_account_it_began_in() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), false);
    let admin = sign_in::set_up(&terse, "admin");
    let mallory = sign_in::join(&terse, "mallory");
    // Mallory starts a flow and the admin's browser finishes it, even with her cookie.
    let mut hers = CookieJar::of(&mallory.cookie);
    let to = provider_url(&hers.post(&terse, "/account/connect", &[]));
    let back = provider.visit(&to, "mallory");
    let mut victim = CookieJar::of(&admin.cookie);
    victim.0.insert("terse_flow".into(), hers.0["terse_flow"].clone());
    assert_eq!(victim.open(&terse, &back).status, 403);
    assert_eq!(
        sign_in(&terse, &provider, &mut CookieJar::default(), "mallory").status,
        403,
        "nothing was connected"
    );
    // Another site cannot start a flow.
    let sent = terse.send(
        "POST",
        "/account/connect",
        &[
            ("cookie", &admin.cookie),
            ("origin", "https://evil.example"),
            ("content-type", "application/x-www-form-urlencoded"),
        ],
        Some(b""),
    );
    assert_eq!(sent.status, 403);
}

#[test]
fn a_suspended_account_is_refused_here_too() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), true);
    let mut cookies = CookieJar::default();
    assert_eq!(sign_in(&terse, &provider, &mut cookies, "ann").status, 303);
    sign_in::suspend(&terse, "ann");
    assert_eq!(cookies.open(&terse, "/account").location(), Some("/login?next=/account"));
    let mut again = CookieJar::default();
    let answer = sign_in(&terse, &provider, &mut again, "ann");
    assert_eq!((answer.status, again.has("terse_session")), (403, false));
    assert!(answer.text().contains("suspended"));
}

#[test]
fn an_unreachable_provider_affects_only_its_own_sign_ins_and_recovers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let terse = start(&format!("http://{address}"), true);
    let away = CookieJar::default().open(&terse, "/auth/oidc");
    assert_eq!((away.status, away.header("retry-after").is_some()), (503, true));
    let mut admin = sign_in::set_up(&terse, "admin");
    assert_eq!(
        admin.send(&terse, "/login", &[("name", "admin"), ("password", PASSWORD)]).status,
        303
    );
    let provider = Provider::at(TcpListener::bind(address).unwrap());
    let begun = Instant::now();
    loop {
        let mut cookies = CookieJar::default();
        if cookies.open(&terse, "/auth/oidc").status == 303 {
            assert_eq!(sign_in(&terse, &provider, &mut cookies, "ann").status, 303);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not found again");
        std::thread::sleep(Duration::from_millis(200));
    }
    // The provider rotates its key; terse fetches the new one.
    provider.rotate();
    std::thread::sleep(Duration::from_millis(1100));
    let keys = provider.requests("/jwks");
    assert_eq!(sign_in(&terse, &provider, &mut CookieJar::default(), "ann").status, 303);
    assert_eq!(provider.requests("/jwks"), keys + 1);
}

#[test]
fn without_a_provider_there_are_no_such_pages() {
    let terse = TestTerse::start();
    for path in ["/auth/oidc", "/auth/oidc/callback?code=x&state=y"] {
        assert_eq!(terse.browse(path).status, 404, "{path}");
    }
    assert!(!terse.browse("/login").text().contains("/auth/"));
}

#[test]
fn a_flow_from_another_domain_starts_on_the_primary_domain() {
    let provider = Provider::start();
    let terse = start(&provider.issuer(), true);
    let answer =
        terse.send("GET", "/auth/oidc", &[("host", "127.0.0.1"), ("accept", "text/html")], None);
    assert_eq!((answer.status, answer.location()), (303, Some("http://go.example/auth/oidc")));
}
