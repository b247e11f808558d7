//! axe-core on the states of the dashboard that a plain visit does not show: empty lists, forms
//! with errors, open menus, imports under way; on a wide screen and a phone, in the light and the
//! dark theme.

use serde_json::{Value, json};

use crate::browser::run_scenario;
use crate::dashboard::World;
use crate::states::States;

#[test]
fn the_dashboard_passes_axe_in_every_state() {
    let world = World::new();
    run_scenario(true, &[&world.terse.url], async |browser| {
        let mut states = States::new(browser, &world.terse.url);
        world.sign_in(browser, "/dashboard").await;
        empty_pages(&mut states).await;
        refused_forms(&mut states).await;
        links(&mut states, &world).await;
        accounts(&mut states, &world).await;
        imports(&mut states, &world).await;
        branding(&mut states).await;
        states.done();
    });
}

async fn empty_pages(states: &mut States<'_>) {
    for (name, path) in [
        ("overview-empty", "/dashboard"),
        ("links-empty", "/links"),
        ("links-none-match", "/links?q=nothing"),
        ("links-none-archived", "/links?show=archived"),
        ("tags-empty", "/tags"),
        ("webhooks-empty", "/webhooks"),
        ("moderation-empty", "/moderation"),
        ("signed-in-not-found", "/links/nosuch9"),
        ("signed-in-home", "/"),
    ] {
        states.open(name, path).await;
    }
}

/// A form that is refused: the state's name, the page, what is typed, the form, and what shows the
/// error.
type RefusedForm = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const REFUSED_FORMS: [RefusedForm; 10] = [
    (
        "link-refused",
        "/links/new",
        &[("long_url", "nonsense"), ("alias", "no spaces")],
        ".link-form",
        "[aria-invalid]",
    ),
    ("webhook-refused", "/webhooks", &[("url", "nonsense")], "main form", "#url[aria-invalid]"),
    (
        "domain-refused",
        "/domains",
        &[("domain", "no domain")],
        ".below form",
        "#domain[aria-invalid]",
    ),
    (
        "host-refused",
        "/moderation",
        &[("host", "no host")],
        "form[action='/moderation/hosts']",
        "#host[aria-invalid]",
    ),
    (
        "search-refused",
        "/moderation",
        &[("search", "no host")],
        "form[action='/moderation'][method=get]",
        "#search[aria-invalid]",
    ),
    ("key-refused", "/account", &[], "form[action='/account/keys']", "#key[aria-invalid]"),
    (
        "password-refused",
        "/account",
        &[("current", "wrong"), ("password", "short"), ("again", "short")],
        "form[action='/account/password']",
        "[aria-invalid]",
    ),
    (
        "preferences-refused",
        "/account",
        &[("time_zone", "Mars/Olympus")],
        "form[action='/account/preferences']",
        "#time_zone[aria-invalid]",
    ),
    ("branding-refused", "/branding", &[("accent", "#ffff00")], ".brand", "#accent[aria-invalid]"),
    (
        "branding-link-refused",
        "/branding",
        &[("label0", "Privacy"), ("url0", "http://example.com/")],
        ".brand",
        "#problem",
    ),
];

async fn refused_forms(states: &mut States<'_>) {
    for (name, path, fields, form, css) in REFUSED_FORMS {
        states.fill(path, fields).await;
        states.refuse(name, form, css).await;
    }
    let open = "document.querySelector('.erase').open = true";
    states.fill("/account", &[]).await;
    states.browser.client.execute(open, vec![]).await.unwrap();
    states.refuse("delete-refused", "form[action='/account/delete']", "#typed[aria-invalid]").await;
    states.fill("/account", &[("key", "the newsletter")]).await;
    states.refuse("key-made", "form[action='/account/keys']", "#fresh").await;
}

async fn links(states: &mut States<'_>, world: &World) {
    let browser = states.browser;
    let launch = json!({"alias": "launch", "long_url": "https://example.com/", "tags": ["q4"]});
    world.api("POST", "/urls", &launch);
    states.open("history-empty", "/links/launch/history").await;
    world.api("PATCH", "/urls/launch", &json!({"title": "Launch post"}));
    for (name, path) in [
        ("link-without-clicks", "/links/launch"),
        ("live-without-clicks", "/links/launch/live"),
        ("values-without-clicks", "/links/launch/values?of=countries"),
        ("rules-none", "/links/launch/rules"),
        ("rules-refused", "/links/launch/rules?try=1&country=Atlantis"),
        ("period-refused", "/links/launch?period=custom&from=2026-02-01&to=2026-01-01"),
        ("qr-colour-refused", "/links/launch/qr?fg=pink"),
        ("qr-contrast-refused", "/links/launch/qr?fg=%23ffffff&bg=%23ffffff"),
        ("qr-margin-refused", "/links/launch/qr?margin=99"),
    ] {
        states.open(name, path).await;
    }
    world.api("POST", "/urls/launch/report", &json!({"reason": "spam", "text": "unwanted"}));
    world.api("POST", "/webhooks", &json!({"url": "http://127.0.0.1:8/hook"}));
    world.api("POST", "/webhooks/1/test", &Value::Null);
    // Menus, dialogs and folded parts, all open.
    for (name, path) in [
        ("overview-menus", "/dashboard"),
        ("tags-menus", "/tags"),
        ("links-menus", "/links"),
        ("link-menus", "/links/launch"),
        ("form-menus", "/links/launch/edit"),
        ("webhook-menus", "/webhooks/1"),
        ("domains-menus", "/domains"),
        ("account-menus", "/account"),
        ("moderation-report", "/moderation?search=example.com"),
        ("history", "/links/launch/history?done=undone"),
    ] {
        states.open_menus(name, path).await;
    }
    states.fill("/links/new", &[]).await;
    let white = "document.getElementById('qr-code').open = true;
        const field = document.getElementById('qr-fg'); field.value = '#ffffff';
        field.dispatchEvent(new Event('input', { bubbles: true }))";
    browser.client.execute(white, vec![]).await.unwrap();
    browser.wait("[data-qr-problem]:not([hidden])").await;
    states.check("form-qr-refused").await;
    let too_long = "const form = document.querySelector('form[action=\"/tags/rename\"]');
        form.closest('details').open = true;
        form.elements.name.value = 'x'.repeat(60)";
    states.fill("/tags", &[]).await;
    browser.client.execute(too_long, vec![]).await.unwrap();
    states.refuse("tag-refused", "form[action='/tags/rename']", "[name=name][aria-invalid]").await;
    states.fill("/webhooks/1", &[("url", "nonsense")]).await;
    browser.press("button[value=save]").await;
    browser.wait("#url[aria-invalid]").await;
    states.check("webhook-settings-refused").await;
    states.fill("/links", &[]).await;
    browser.press(".pick").await;
    states.check("links-selected").await;
    world.api("DELETE", "/urls/launch", &Value::Null);
    states.open("links-deleted", "/links?deleted=launch&show=deleted").await;
    states.open("link-deleted", "/links/launch").await;
}

async fn accounts(states: &mut States<'_>, world: &World) {
    world.key_of_new_account("bob");
    let chidi = world.api("POST", "/admin/users", &json!({"name": "chidi"}));
    let suspend = format!("/admin/users/{}/suspend", chidi["id"].to_string().trim_matches('"'));
    world.api("POST", &suspend, &json!({"why": "a test"}));
    states.fill("/accounts", &[]).await;
    states.browser.press("form[action='/accounts/invite'] button").await;
    states.browser.wait("#fresh").await;
    states.check("accounts-invited").await;
    states.open_menus("accounts-menus", "/accounts").await;
}

/// Enough rows that the work on them goes on while the browser loads a page, in a file that may be
/// sent.
const MANY: usize = 300_000;

async fn imports(states: &mut States<'_>, world: &World) {
    let browser = states.browser;
    let check = async |file: &std::path::Path| {
        browser.open(&format!("{}/import", world.terse.url)).await;
        browser.choose("#file", file).await;
        browser.press("main form button[type=submit]").await;
    };
    let discard = "form[action='/import/discard'] button";
    check(&world.file("other.csv", "foo,bar\n1,2\n")).await;
    browser.wait("#file[aria-invalid]").await;
    states.check("import-refused").await;

    check(&world.file("empty.csv", "short_code,long_url\n")).await;
    browser.wait_for_text("#state", "The import stopped").await;
    states.check("import-failed").await;
    browser.press(discard).await;
    browser.wait("#file").await;

    let rows = "short_code,long_url,title,colour\n\
        first,https://example.com/first,First,red\n\
        first,https://example.com/other,Twice,red\n\
        bad,ftp://example.com/,Bad,red\n";
    check(&world.file("some.csv", rows)).await;
    browser.wait_for_text("#state", "This would happen").await;
    states.check("import-checked").await;
    browser.press("form[action='/import/start'] button").await;
    browser.wait_for_text("#state", "The import is complete").await;
    states.check("import-done").await;
    browser.press(discard).await;
    browser.wait("#file").await;

    let mut rows = String::from("short_code,long_url\n");
    for row in 0..MANY {
        rows.push_str(&format!("row-{row},https://example.com/{row}\n"));
    }
    check(&world.file("many.csv", &rows)).await;
    let start = "const form = document.createElement('form');
        [form.method, form.action] = ['post', '/import/start'];
        document.body.append(form); form.submit()";
    browser.client.execute(start, vec![]).await.unwrap();
    browser.wait("main > .problem").await;
    // The page would go on when the work ends.
    let stay = "window.fetch = () => new Promise(() => {})";
    browser.client.execute(stay, vec![]).await.unwrap();
    browser.wait("progress").await;
    states.check("import-busy").await;
    browser.open(&format!("{}/import", world.terse.url)).await;
    browser.wait_for_text("#state", "This would happen").await;
    browser.press("form[action='/import/start'] button").await;
    browser.wait_for_text("#state", "Importing").await;
    browser.client.execute(stay, vec![]).await.unwrap();
    states.check("import-running").await;
    browser.press(discard).await;
    browser.wait("#file").await;
}

async fn branding(states: &mut States<'_>) {
    let fields = [
        ("name", "Acme Links"),
        ("accent", "#0a5c8f"),
        ("label0", "Privacy"),
        ("url0", "https://example.com/privacy"),
        ("abuse_contact", "abuse@example.com"),
    ];
    states.fill("/branding", &fields).await;
    states.refuse("branding-saved", ".brand", ".toast").await;
    for (name, path) in
        [("overview-branded", "/dashboard"), ("home-branded", "/"), ("404-branded", "/nosuch9")]
    {
        states.open(name, path).await;
    }
}
