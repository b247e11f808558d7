//! The page that imports a file.

use terse_core::registry::Role;

use crate::web::{Answer, OWNER, Web};

const FILE: &str = "keyword,url,title,timestamp,ip,clicks\n\
    sale,https://example.com/sale,<b>Sale</b>,2020-05-01 12:00:00,192.0.2.1,7\n\
    sale,https://example.com/other,twice,2020-05-01 12:00:00,192.0.2.1,1\n\
    bad,ftp://example.com/,=cmd(),2020-05-01 12:00:00,192.0.2.1,0\n\
    two,https://example.com/two,Two,2020-05-02 12:00:00,192.0.2.1,0\n";

async fn open(web: &Web, cookie: &str, path: &str) -> Answer {
    let headers = [("accept", "text/html"), ("host", "go.example"), ("cookie", cookie)];
    web.call(&format!("GET {path}"), &headers, "").await
}

async fn send(web: &Web, cookie: &str, path: &str, site: &str, body: &str) -> Answer {
    let kind = match path {
        "/import" => "multipart/form-data; boundary=xyz",
        _ => "application/x-www-form-urlencoded",
    };
    let headers = [
        ("content-type", kind),
        ("host", "go.example"),
        ("sec-fetch-site", site),
        ("cookie", cookie),
    ];
    web.call(&format!("POST {path}"), &headers, body.to_owned()).await
}

fn form(file: &str) -> String {
    format!(
        "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.csv\"\r\n\r\n{file}\
         \r\n--xyz\r\nContent-Disposition: form-data; name=\"domain\"\r\n\r\n\r\n--xyz--\r\n"
    )
}

/// The page once no task works on the import any more.
async fn settled(web: &Web, cookie: &str) -> String {
    for _ in 0..200 {
        let text = open(web, cookie, "/import").await.text();
        if !text.contains("http-equiv=\"refresh\"") {
            return text;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the import does not end");
}

#[tokio::test]
async fn a_file_is_checked_imported_and_reported_without_scripts() {
    let web = Web::new();
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    let text = open(&web, &admin, "/import").await.text();
    assert!(text.contains("enctype=\"multipart/form-data\"") && text.contains("16 MiB"), "{text}");
    let before = web.store.everything().len();

    let sent = send(&web, &admin, "/import", "same-origin", &form(FILE)).await;
    assert_eq!(
        (sent.status.as_u16(), sent.header("location")),
        (303, "/import"),
        "{}",
        sent.text()
    );
    let text = settled(&web, &admin).await;
    for shown in [
        "This would happen",
        "An export of YOURLS",
        "<dt>New</dt><dd>2</dd>",
        "<dt>Refused</dt><dd>2</dd>",
        "<dt>keyword</dt><dd>short_code</dd>",
        "Not used: ip",
        "an earlier row has this code",
        "&#60;b&#62;Sale&#60;/b&#62;",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(text.len() < 50_000);
    assert_eq!(web.store.everything().len(), before, "a dry run changes nothing");

    let started = send(&web, &admin, "/import/start", "same-origin", "").await;
    assert_eq!(started.header("location"), "/import", "{}", started.text());
    let text = settled(&web, &admin).await;
    for shown in ["The import is complete", "<dt>Created</dt><dd>2</dd>"] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    let links = web.store.everything();
    assert_eq!(links.len(), before + 2);
    let sale = links.iter().find(|link| link.key.code.as_str() == "sale").unwrap();
    assert_eq!((sale.target.as_str(), sale.imported_clicks), ("https://example.com/sale", 7));
    let report = open(&web, &admin, "/import/refused.csv").await;
    assert!(report.header("content-type").starts_with("text/csv"));
    let lines = report.text();
    assert!(lines.starts_with("line,outcome,short_code,field,reason\r\n"), "{lines}");
    assert!(lines.contains("3,refused,\"sale\",\"short_code\",") && lines.contains("4,refused"));

    // The same file once more: the links are recognised.
    send(&web, &admin, "/import", "same-origin", &form(FILE)).await;
    let text = settled(&web, &admin).await;
    assert!(text.contains("<dt>Already there</dt><dd>2</dd>"), "{text}");
    send(&web, &admin, "/import/discard", "same-origin", "").await;
    assert!(open(&web, &admin, "/import").await.text().contains("Check the file"));
    assert_eq!(open(&web, &admin, "/import/refused.csv").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_imported_is_refused_and_others_do_not_see_the_page() {
    let web = Web::new();
    let admin = web.person("ada", Role::Admin).await;
    let admin = web.sign_in(admin, "terse_admin-browser").await;
    for (file, why) in [
        ("", "the file is empty"),
        ("foo,bar\n1,2\n", "there is no column with targets"),
        ("PK\u{3}\u{4}zip", "the file is compressed"),
    ] {
        let refused = send(&web, &admin, "/import", "same-origin", &form(file)).await;
        assert_eq!(refused.status, 400, "{file}");
        let text = refused.text();
        assert!(text.contains(why) && text.contains("aria-invalid=\"true\""), "{text}");
    }
    let large = form(&"x".repeat((16 << 20) + (65 << 10)));
    assert_eq!(send(&web, &admin, "/import", "same-origin", &large).await.status, 413);
    let nothing = send(&web, &admin, "/import/start", "same-origin", "").await;
    assert_eq!(nothing.status, 409);
    for path in ["/import", "/import/start", "/import/discard"] {
        let elsewhere = send(&web, &admin, path, "cross-site", &form(FILE)).await;
        assert_eq!(elsewhere.status, 403, "{path}");
    }
    let user = web.sign_in(OWNER.1, "terse_user-browser").await;
    assert_eq!(open(&web, &user, "/import").await.status, 404);
    assert_eq!(send(&web, &user, "/import", "same-origin", &form(FILE)).await.status, 404);
}
