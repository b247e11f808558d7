//! Visitors' pages in the visitor's language.

use serde_json::json;
use terse_core::PageLanguage;

use crate::web::{Answer, Web};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn web() -> Web {
    let web = Web::new();
    for (alias, url) in [("abc", "https://example.com/"), ("odd", "https://odd.example/")] {
        let link = json!({"long_url": url, "alias": alias, "title": "Spring"});
        assert_eq!(web.anonymous("POST /api/v1/urls", link).await.status, 201);
    }
    let locked =
        json!({"long_url": "https://example.com/", "alias": "locked", "password": "sesame!"});
    assert_eq!(web.api("POST /api/v1/urls", locked).await.status, 201);
    web
}

async fn call(web: &Web, request: &str, language: &str, body: &str) -> Answer {
    let headers =
        [("accept", "text/html"), ("host", "go.example"), ("accept-language", language), FORM];
    web.call(request, &headers, body.to_owned()).await
}

/// Checks that all three places name the same language.
#[track_caller]
fn is_in(answer: &Answer, tag: &str) {
    assert_eq!(answer.header("content-language"), tag, "{}", answer.text());
    assert_eq!(answer.header("vary"), "accept-language, cookie");
    assert!(answer.text().contains(&format!("<html lang=\"{tag}\">")), "{}", answer.text());
}

#[tokio::test]
async fn every_page_for_visitors_is_in_their_language() {
    let web = web().await;
    for (request, status, german, japanese) in [
        ("GET /", 200, "Langen Link einfügen", "短縮する"),
        ("GET /?made=abc", 200, "Ihr Kurzlink", "短縮リンクができました"),
        ("POST /", 400, "Kürzen", "短縮する"),
        ("GET /none+", 404, "Nicht gefunden", "見つかりません"),
        ("GET /abc+", 200, "führt zu", "リンクのプレビュー"),
        ("GET /locked+", 200, "Mit Passwort geschützt", "パスワードで保護されています"),
        ("GET /r/locked", 200, "Passwort erforderlich", "パスワードが必要です"),
        ("GET /r/odd", 200, "Zurück in Sicherheit", "安全なページに戻る"),
        ("GET /r/abc/report", 200, "Was stimmt nicht mit", "報告を送信"),
        ("GET /r/abc/report?sent", 200, "Vielen Dank", "ありがとうございます"),
        (
            "POST /r/abc/report",
            400,
            "Bitte wählen Sie einen Grund aus.",
            "理由を選択してください。",
        ),
        ("DELETE /login", 405, "Hier ist keine Seite", "ここにページはありません"),
    ] {
        for (accepted, tag, words) in
            [("de-AT,en;q=0.5", "de", german), ("fr;q=0.1,ja", "ja", japanese)]
        {
            let answer = call(&web, request, accepted, "").await;
            assert_eq!(answer.status, status, "{request}");
            is_in(&answer, tag);
            assert!(answer.text().contains(words), "{request}: {}", answer.text());
            assert!(answer.bytes.len() < 50_000);
        }
        let answer = call(&web, request, "de;q=0, nl", "").await;
        is_in(&answer, "en");
    }
    let preview = call(&web, "GET /abc+", "es", "").await.text();
    for words in ["Título</dt><dd>Spring", "Creado</dt>", "ahora mismo", "Sin problemas conocidos"]
    {
        assert!(preview.contains(words), "{preview}");
    }
}

#[tokio::test]
async fn a_problem_of_the_form_is_in_the_visitors_language() {
    let web = web().await;
    for (body, german, japanese, english) in [
        ("long_url=", "keine Webadresse", "短縮できる URL ではありません", "not a web address"),
        ("long_url=ftp%3A%2F%2Fa.b%2F", "Nur Adressen mit http", "http と https", "http"),
        ("long_url=https%3A%2F%2Fgo.example%2F", "Server zurück", "このサーバー自身", "lead back"),
        ("long_url=http%3A%2F%2F127.0.0.1%2F", "privaten Netz", "プライベート", "public"),
        ("long_url=https%3A%2F%2Fevil.example%2F", "gesperrt", "ブロック", "block"),
        ("long_url=example.com&alias=a%2Fb", "3 bis 64", "3 ～ 64", "may contain only"),
        ("long_url=example.com&alias=links", "reserviert", "予約され", "is reserved for pages"),
        ("long_url=example.com&alias=abc", "vergeben", "すでに使われ", "This alias is taken."),
        ("long_url=example.com&ttl=7", "angebotenen Zeiten", "一覧にある期限", "listed times"),
        ("long_url=example.com&x=1", "nicht gelesen", "読み取れません", "not a parameter"),
    ] {
        let problem = async |language: &str| {
            let text = call(&web, "POST /", language, body).await.text();
            let alert = text.split("role=\"alert\"").nth(1).unwrap_or_else(|| panic!("{text}"));
            alert.split("</p>").next().unwrap().to_owned()
        };
        for (language, words) in [("de", german), ("ja", japanese), ("en", english)] {
            let found = problem(language).await;
            assert!(found.contains(words), "{body} {language}: {found}");
            assert!(!found.contains("lang="), "{body} {language}: {found}");
        }
        let mut all = std::collections::BTreeSet::new();
        for language in PageLanguage::ALL {
            all.insert(problem(language.tag()).await);
        }
        assert_eq!(all.len(), PageLanguage::ALL.len(), "{body}: {all:?}");
    }
    web.store.away.store(true, std::sync::atomic::Ordering::Relaxed);
    let text = call(&web, "POST /", "fr", "long_url=example.com").await.text();
    assert!(text.contains("n’a pas pu être créé pour le moment"), "{text}");
}

#[tokio::test]
async fn pages_for_accounts_stay_english() {
    let web = web().await;
    for path in ["GET /login", "GET /join?token=none"] {
        let answer = call(&web, path, "de", "").await;
        assert!(answer.text().contains("<html lang=\"en\">"), "{path}");
        assert!(!answer.text().contains("Anmelden"), "{path}");
    }
}

#[test]
fn pages_for_the_redirect_plane_exist_in_every_language() {
    let hosts =
        terse_core::Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for language in PageLanguage::ALL {
        let pages = terse_server::pages(&terse_core::Operator::default(), &hosts, language);
        for page in [
            pages.not_found,
            pages.gone,
            pages.used_up,
            pages.blocked,
            pages.unavailable,
            pages.limited,
        ] {
            assert!(page.contains(&format!("<html lang=\"{}\">", language.tag())));
            assert!(!page.contains('{'), "{page}");
            assert!(seen.insert(page), "two pages are the same");
        }
    }
}

#[test]
fn a_refused_request_is_answered_in_the_visitors_language() {
    let hosts =
        terse_core::Hosts::new(&"https://go.example/".parse().unwrap(), &[], vec![]).unwrap();
    let pages = terse_server::RefusalPages::new(Default::default(), &hosts);
    let status = axum::http::StatusCode::MISDIRECTED_REQUEST;
    let answer = pages.answer(status, "unknown_host", "detail", Some(PageLanguage::French));
    assert_eq!(answer.headers()["content-language"], "fr");
    assert_eq!(answer.headers()["vary"], "accept-language, cookie");
    let answer = pages.answer(status, "unknown_host", "detail", None);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
}
