//! German.

use super::{Catalogue, MessageText, Plural};

pub(super) const MESSAGES: Catalogue = Catalogue {
    skip: "Zum Inhalt springen",
    home_label: "{name}, Startseite",
    site: "Website",
    sign_in: "Anmelden",
    dashboard: "Übersicht",
    account: "Konto",
    add_plus: "Hängen Sie {plus} an einen Kurzlink an, um zu sehen, wohin er führt.",
    run_by: "Betrieben von {name}",
    imprint: "Impressum",
    report_abuse: "Missbrauch melden",
    report_security: "Sicherheitsproblem melden",
    home_page: "Zur Startseite",

    not_found: MessageText {
        heading: "Nicht gefunden",
        text: "Unter dieser Adresse gibt es keinen Link. Vielleicht ist sie falsch geschrieben, \
            oder der Link wurde gelöscht.",
        hint: "Groß- und Kleinschreibung sind wichtig. Bitte vergleichen Sie den Link mit seiner \
            Quelle.",
    },
    expired: MessageText {
        heading: "Dieser Link ist abgelaufen",
        text: "Seine Gültigkeit ist zu Ende. Er führt nirgendwo mehr hin.",
        hint: "Bitten Sie die Person, von der Sie den Link haben, um einen neuen.",
    },
    used_up: MessageText {
        heading: "Dieser Link ist aufgebraucht",
        text: "Er konnte nur eine begrenzte Anzahl von Malen geöffnet werden und ist jetzt \
            abgelaufen.",
        hint: "Bitten Sie die Person, von der Sie den Link haben, um einen neuen.",
    },
    blocked: MessageText {
        heading: "Dieser Link ist gesperrt",
        text: "Er wurde wegen seines Ziels oder wegen seines Besitzers gesperrt. Wir zeigen das \
            Ziel nicht an.",
        hint: "Sie haben nichts falsch gemacht. Der Link wurde nicht geöffnet.",
    },
    unavailable: MessageText {
        heading: "Vorübergehend nicht verfügbar",
        text: "Wir können gerade nicht nachsehen. Links und Konten sind nicht betroffen.",
        hint: "Bitte versuchen Sie es in einigen Sekunden noch einmal.",
    },
    limited: MessageText {
        heading: "Zu viele Anfragen",
        text: "Aus Ihrem Netz oder von allen Besuchern zusammen kamen zu viele Anfragen.",
        hint: "Bitte warten Sie eine Minute und versuchen Sie es dann noch einmal.",
    },
    too_many_tries: MessageText {
        heading: "Zu viele Versuche",
        text: "Aus Ihrem Netz oder von allen Besuchern zusammen wurde zu oft ein falsches \
            Passwort eingegeben.",
        hint: "Fragen Sie die Person, von der Sie den Link haben, nach dem Passwort, und \
            versuchen Sie es später noch einmal.",
    },
    bad_form: MessageText {
        heading: "Das Formular war nicht lesbar",
        text: "Ihr Browser hat etwas anderes als unser Formular gesendet.",
        hint: "Bitte gehen Sie zurück, laden Sie die Seite neu und versuchen Sie es noch einmal.",
    },
    wrong_method: MessageText {
        heading: "Hier ist keine Seite",
        text: "Diese Adresse hat keine eigene Seite. Sie nimmt nur unsere Formulare an.",
        hint: "Bitte beginnen Sie auf der Startseite.",
    },
    cross_site: MessageText {
        heading: "Anfrage von einer anderen Website",
        text: "Eine andere Website wollte unser Formular in Ihrem Namen senden. Wir haben das \
            abgelehnt.",
        hint: "Wenn Sie das wirklich möchten, beginnen Sie bitte auf unserer eigenen Seite.",
    },
    failed: MessageText {
        heading: "Etwas ist schiefgegangen",
        text: "Der Fehler liegt bei uns. Er wurde protokolliert.",
        hint: "Bitte versuchen Sie es in einigen Sekunden noch einmal.",
    },
    unknown_host: MessageText {
        heading: "Diese Adresse ist nicht eingerichtet",
        text: "Dieser Server ist für {host} zuständig, nicht für die aufgerufene Adresse.",
        hint: "Wenn Sie diesen Server betreiben: Setzen Sie base_url auf die Adresse in der \
            Adresszeile Ihres Browsers (als TERSE_BASE_URL oder in terse.toml), oder fügen Sie \
            den Host zu domains hinzu, und starten Sie terse neu.",
    },

    contact_question: "Wenn Sie Fragen zu diesem Link haben, wenden Sie sich bitte an {contact}.",
    contact_mistake: "Wenn Sie das für einen Irrtum halten, wenden Sie sich bitte an {contact}.",
    operator: "den Betreiber dieses Servers",

    not_opened_yet: "Der Link wurde noch nicht geöffnet.",
    only_preview: "Dies ist nur eine Vorschau. Der Link wurde nicht geöffnet.",
    not_opened: "Der Link wurde nicht geöffnet.",
    report_link: "Diesen Link melden",

    password_heading: "Passwort erforderlich",
    password_lead: "Dieser Link ist mit einem Passwort geschützt.",
    password_careful: "Seien Sie vorsichtig. Dieser Link wurde als verdächtig gemeldet.",
    password_signs: "Seien Sie vorsichtig. Dieser Link hat Merkmale, die bei Betrug häufig sind:",
    password_then: "Nach der Eingabe des Passworts zeigen wir Ihnen, wohin der Link führt, bevor \
        Sie fortfahren.",
    password: "Passwort",
    password_about: "Gemeint ist das Passwort des Links, nicht das eines Ihrer Konten. Fragen Sie \
        die Person, von der Sie den Link haben.",
    password_wrong: "Das ist nicht das richtige Passwort.",
    password_here: "Bitte geben Sie das Passwort hier ein.",
    go_on: "Weiter",

    preview_heading: "Link-Vorschau",
    preview_leads: "{link} führt zu",
    title: "Titel",
    created: "Erstellt",
    expires: "Läuft ab",
    never: "Nie",
    clicks_left: "Verbleibende Klicks",
    connection: "Verbindung",
    encrypted: "Verschlüsselt (https)",
    not_encrypted: "Nicht verschlüsselt (http)",
    safety: "Sicherheit",
    suspicious: "Verdächtig",
    no_problems: "Keine bekannten Probleme",
    go_on_anyway: "Trotzdem weiter",
    protected_heading: "Mit Passwort geschützt",
    protected_lead: "{link} ist mit einem Passwort geschützt. Geben Sie es ein, um zu sehen, wohin \
        der Link führt.",
    enter_password: "Passwort eingeben",
    international: "Dieser Domainname enthält internationale Zeichen: {name}. Manche sehen aus wie \
        andere Buchstaben; bitte prüfen Sie den Namen genau.",

    rules_divide: "Dieser Link verteilt seine Besucher auf mehrere Ziele.",
    rules_elsewhere: "Dieser Link leitet seine Besucher zu einem anderen Ziel.",
    rules_depend: "Wohin dieser Link führt, hängt ab von: {factors}.",
    rules_depend_divide: "Wohin dieser Link führt, hängt ab von: {factors}. Einen Teil der \
        Besucher verteilt er auf mehrere Ziele.",
    factor_device: "Gerät",
    factor_language: "Sprache",
    factor_country: "Land",
    factor_query: "Parameter des Kurzlinks",
    factor_time: "Zeit",
    comma: ", ",
    and: " und ",
    other_targets: "Weitere Ziele:",

    warning_heading: "Verdächtiger Link",
    warning_reported: "Dieser Link wurde als verdächtig gemeldet. Vielleicht will er Passwörter \
        oder Geld stehlen.",
    warning_signs: "Dieser Link hat Merkmale, die bei Betrug häufig sind:",
    warning_only_if: "Fahren Sie nur fort, wenn Sie diese Website kennen und dorthin wollten:",
    back_to_safety: "Zurück in Sicherheit",
    go_on_to: "Weiter zu {host}",
    reason_reported: "Mehrere Besucher haben ihn gemeldet.",
    reason_mixed_script: "Der Name der Website mischt Buchstaben verschiedener Alphabete und kann \
        dadurch wie ein anderer Name aussehen.",
    reason_look_alike: "Der Name der Website sieht aus wie der einer bekannten Website, ist es \
        aber nicht.",
    reason_userinfo: "Vor dem Namen der Website steht ein Benutzername. Dadurch kann die Adresse \
        wie die einer anderen Website aussehen.",
    reason_misleading_at: "Der Text nach dem @ sieht aus wie der Name der Website, ist es aber \
        nicht.",
    reason_numeric_host: "Die Website hat eine IP-Adresse statt eines Namens.",
    reason_odd_address: "Die Website hat eine Zahl statt eines Namens, in einer schwer \
        erkennbaren Form.",
    reason_single_label: "Der Name der Website hat keinen Punkt und kann in einem anderen Netz \
        etwas anderes bedeuten.",
    reason_shortener: "Der Link führt zu einem weiteren Kurzlink, der sein Ende verbirgt.",
    reason_free_hosting: "Die Seite liegt bei einem Dienst, bei dem jeder kostenlos Seiten \
        veröffentlichen kann.",
    reason_open_redirect: "Die Adresse gehört zu einer bekannten Website, leitet aber zu einer \
        anderen weiter.",
    reason_disguised_text: "Der Name der Website wurde mit unsichtbaren oder ähnlich aussehenden \
        Zeichen geschrieben.",
    reason_odd_slashes: "Die Adresse wurde mit ungewöhnlich vielen oder ungewöhnlichen \
        Schrägstrichen geschrieben.",
    reason_unscreened: "Diese Website wurde noch nicht geprüft.",
    reason_hidden_text: "Die Adresse enthält unsichtbare Zeichen oder Zeichen, die ihr Ende in \
        anderer Reihenfolge zeigen.",
    reason_on_warn_list: "Die Website steht auf einer Liste von Websites, bei denen Vorsicht \
        geboten ist, zum Beispiel weil sie sehr neu sind.",

    report_heading: "Link melden",
    report_lead: "Was stimmt nicht mit {link}?",
    report_reason: "Grund",
    report_choose: "Grund auswählen",
    report_phishing: "Phishing: ahmt eine andere Website nach oder verlangt Passwörter oder Geld",
    report_malware: "Schadsoftware: verbreitet schädliche Programme",
    report_spam: "Spam: unerwünschte Werbung",
    report_illegal: "Rechtswidriger Inhalt",
    report_other: "Etwas anderes",
    report_text: "Was sollten wir noch wissen?",
    optional: "freiwillig",
    report_private: "Wir speichern Ihre IP-Adresse nicht. Bitte schreiben Sie nichts Persönliches \
        über sich.",
    report_send: "Meldung senden",
    report_preview: "Vorschau des Links",
    report_choose_problem: "Bitte wählen Sie einen Grund aus.",
    report_long: "Bitte schreiben Sie höchstens {most} Zeichen.",
    thanks_heading: "Vielen Dank",
    thanks_text: "Die Moderatoren dieses Servers haben Ihre Meldung erhalten. Wenn mehrere \
        Besucher denselben Link melden, sehen seine Besucher eine Warnung.",

    date_time: "%-d.%-m.%Y, %H:%M UTC",
    just_now: "gerade eben",
    minutes_ago: Plural { one: "vor 1 Minute", other: "vor {n} Minuten" },
    hours_ago: Plural { one: "vor 1 Stunde", other: "vor {n} Stunden" },
    days_ago: Plural { one: "vor 1 Tag", other: "vor {n} Tagen" },
    months_ago: Plural { one: "vor 1 Monat", other: "vor {n} Monaten" },
    years_ago: Plural { one: "vor 1 Jahr", other: "vor {n} Jahren" },

    copy: "Kopieren",
    copied: "Kopiert",
    copy_by_key: "Markiert. Zum Kopieren Strg+C oder ⌘C drücken.",
    show: "Zeigen",
    hide: "Verbergen",
    show_password: "Passwort zeigen",
    hide_password: "Passwort verbergen",
    home_short_links: "{name} · kurze Links",
    home_error: "Fehler",
    home_made: "Ihr Kurzlink",
    home_qr: "QR-Code des Kurzlinks",
    home_share: "Teilen",
    home_preview: "Vorschau",
    home_qr_png: "QR als PNG",
    home_expires: "Läuft ab: {time}.",
    home_another: "Einen weiteren Link kürzen",
    home_heading: "Kürzer gesagt",
    home_lead: "Langen Link einfügen, kurzen erhalten.",
    home_no_account: "Ohne Konto, ohne Tracking-Cookies.",
    home_account_lead: "Melden Sie sich an, um lange Links zu kürzen.",
    home_long_link: "Ihr langer Link",
    home_shorten: "Kürzen",
    home_options: "Eigener Alias und Ablauf",
    home_alias: "Eigener Alias",
    home_anonymous: "Links, die ohne Konto erstellt werden, laufen {when} ab.",
    home_keep: "Um Links länger zu behalten, {sign_in} oder nutzen Sie die API mit einem \
        Schlüssel.",
    home_sign_in: "melden Sie sich an",
    home_signed_in: "Sie sind angemeldet. Links, die Sie hier erstellen, gehören zu Ihrem Konto \
        und laufen nur ab, wenn Sie eine Zeit wählen.",
    home_create_account: "Konto anlegen",
    home_closed: "Um auf diesem Server Links zu erstellen, brauchen Sie ein Konto. Programme \
        nutzen die API mit einem Schlüssel.",
    home_by_invitation: "Konten gibt es auf Einladung. Ansprechpartner: {operator}.",
    home_admin: "die Administration dieses Servers",
    home_received: "Haben Sie einen Kurzlink erhalten? Öffnen Sie ihn einfach. Dafür brauchen \
        Sie kein Konto.",
    problem_url: "Das ist keine Webadresse, die sich kürzen lässt. Sie sieht aus wie \
        https://example.com/seite und hat höchstens 8.192 Bytes.",
    problem_scheme: "Nur Adressen mit http oder https lassen sich kürzen.",
    problem_loop: "Diese Adresse führt auf diesen Server zurück.",
    problem_private: "Diese Adresse liegt in einem privaten Netz, das Besucher nicht erreichen.",
    problem_blocked: "Diese Adresse ist hier gesperrt, weil sie als schädlich oder unerwünscht \
        bekannt ist.",
    problem_alias: "Ein Alias besteht aus 3 bis 64 Buchstaben (A bis Z), Ziffern, Binde- und \
        Unterstrichen.",
    problem_reserved: "Dieser Alias ist reserviert. Bitte wählen Sie einen anderen.",
    problem_taken: "Dieser Alias ist vergeben. Bitte wählen Sie einen anderen.",
    problem_expiry: "Bitte wählen Sie eine der angebotenen Zeiten.",
    problem_limited: "In kurzer Zeit wurden zu viele Links erstellt. Bitte warten Sie etwas und \
        versuchen Sie es dann noch einmal.",
    problem_unavailable: "Der Link konnte gerade nicht erstellt werden. Bitte versuchen Sie es \
        in einigen Sekunden noch einmal.",
    problem_form: "Das Formular konnte nicht gelesen werden. Bitte laden Sie die Seite neu und \
        versuchen Sie es noch einmal.",
    in_minutes: Plural { one: "in 1 Minute", other: "in {n} Minuten" },
    in_hours: Plural { one: "in 1 Stunde", other: "in {n} Stunden" },
    in_days: Plural { one: "in 1 Tag", other: "in {n} Tagen" },
    in_months: Plural { one: "in 1 Monat", other: "in {n} Monaten" },
    in_years: Plural { one: "in 1 Jahr", other: "in {n} Jahren" },
};
