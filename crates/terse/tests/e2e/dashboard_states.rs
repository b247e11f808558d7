//! axe-core on the states of the dashboard that a plain visit does not show: empty lists, forms
//! with errors, open menus, imports under way; on a wide screen and a phone, in the light and the
//! dark theme.

use fantoccini::Locator;
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
        forms_of_links(&mut states, &world).await;
        webhooks(&mut states, &world).await;
        accounts(&mut states, &world).await;
        moderation(&mut states, &world).await;
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
        ("overview-period-refused", "/dashboard?period=custom&from=2026-02-01&to=2026-01-01"),
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

/// A change that comes while the form is open, and a rule with a problem in its row.
async fn forms_of_links(states: &mut States<'_>, world: &World) {
    let browser = states.browser;
    world.api("POST", "/urls", &json!({"alias": "shared", "long_url": "https://example.com/"}));
    states.fill("/links/shared/edit", &[("title", "Typed by hand")]).await;
    world.api("PATCH", "/urls/shared", &json!({"title": "Changed elsewhere"}));
    states.refuse("link-conflict", ".link-form", ".link-form > .problem").await;
    assert_eq!(browser.status().await, 409);
    states.fill("/links/new", &[("long_url", "https://example.com/")]).await;
    browser.press("#rules > summary").await;
    browser.fill("#r0-country", "Atlantis").await;
    browser.fill("#r0-to0", "https://example.com/at").await;
    states.refuse("rule-refused", ".link-form", "#r0-problem").await;
}

/// A webhook that is off, and the secret of a new one, which is shown once.
async fn webhooks(states: &mut States<'_>, world: &World) {
    world.api("PATCH", "/webhooks/1", &json!({"enabled": false}));
    states.open_menus("webhook-disabled", "/webhooks/1").await;
    states.open("webhooks-disabled", "/webhooks").await;
    states.fill("/webhooks", &[("url", "http://127.0.0.1:8/other")]).await;
    states.refuse("webhook-created", "main form", "#fresh").await;
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

    // A reset link, and a suspension without a reason.
    let browser = states.browser;
    let menu = "details:has(> [aria-label='Change bob'])";
    states.fill("/accounts", &[]).await;
    browser.press(&format!("{menu} > summary")).await;
    browser.press(&format!("{menu} form[action='/accounts/reset'] button")).await;
    browser.wait("#fresh").await;
    states.check("accounts-reset-link").await;
    states.fill("/accounts", &[]).await;
    let unchecked = "for (const form of document.forms) form.noValidate = true";
    browser.client.execute(unchecked, vec![]).await.unwrap();
    browser.press(&format!("{menu} > summary")).await;
    browser.press(&format!("{menu} button[value=suspend]")).await;
    browser.wait("main .problem").await;
    states.check("accounts-refused").await;
}

/// The message about a decision, with the button that takes it back.
async fn moderation(states: &mut States<'_>, world: &World) {
    let browser = states.browser;
    world.api("POST", "/urls", &json!({"alias": "lure", "long_url": "https://example.com/login"}));
    world.api("POST", "/urls/lure/report", &json!({"reason": "phishing", "text": "My bank."}));
    states.fill("/moderation", &[]).await;
    browser.press(".cases button[value=block][aria-label$='/lure']").await;
    browser.wait_for_text(".toast button", "Undo").await;
    states.check("moderation-undo").await;
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

/// The pages of an account that is neither a moderator nor an admin.
const PAGES_OF_A_USER: [(&str, &str); 16] = [
    ("overview", "/dashboard"),
    ("links", "/links"),
    ("tags", "/tags"),
    ("domains", "/domains"),
    ("webhooks", "/webhooks"),
    ("account", "/account"),
    ("two-factor", "/account/two-factor"),
    ("link-new", "/links/new"),
    ("link-edit", "/links/mine/edit"),
    ("link", "/links/mine"),
    ("link-live", "/links/mine/live"),
    ("link-rules", "/links/mine/rules"),
    ("link-qr", "/links/mine/qr"),
    ("link-history", "/links/mine/history"),
    ("link-values", "/links/mine/values?of=browsers"),
    ("home", "/"),
];

#[test]
fn the_dashboard_passes_axe_for_an_account_without_a_role() {
    let world = World::new();
    world.add_account("bob");
    run_scenario(true, &[&world.terse.url], async |browser| {
        let mut states = States::new(browser, &world.terse.url);
        world.sign_in_as(browser, "bob", "/dashboard").await;
        assert_eq!(browser.text("h1").await, "Welcome");
        states.check("user-welcome").await;
        let fields = [("long_url", "https://example.com/"), ("alias", "mine"), ("tags", "q4")];
        states.fill("/links/new", &fields).await;
        browser.press(".form-end button").await;
        browser.wait_for_text(".toast", "The link is created.").await;
        states.check("user-created").await;
        states.fill("/webhooks", &[("url", "http://127.0.0.1:8/hook")]).await;
        states.refuse("user-webhook", "main form", "#fresh").await;
        world.follow("mine", 3);
        for (name, path) in PAGES_OF_A_USER {
            states.open(&format!("user-{name}"), path).await;
            assert_eq!(browser.status().await, 200, "{path}");
        }
        // What only others see.
        for path in ["/moderation", "/accounts", "/branding", "/system", "/import"] {
            browser.open(&format!("{}{path}", world.terse.url)).await;
            assert_eq!(browser.status().await, 404, "{path}");
            browser.check_page().await;
            let entry = format!("a[href='{path}']");
            assert!(browser.client.find(Locator::Css(&entry)).await.is_err(), "a link to {path}");
        }
        states.check("user-not-found").await;
        states.done();
    });
}
