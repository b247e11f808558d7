//! English.

use super::{Catalogue, MessageText, Plural};

pub(super) const MESSAGES: Catalogue = Catalogue {
    skip: "Skip to the content",
    home_label: "{name}, home",
    site: "Site",
    sign_in: "Sign in",
    dashboard: "Dashboard",
    account: "Account",
    add_plus: "Add {plus} to any short link to see where it leads.",
    run_by: "Run by {name}",
    imprint: "Imprint",
    report_abuse: "Report abuse",
    report_security: "Report a security problem",
    home_page: "Go to the home page",

    not_found: MessageText {
        heading: "Not found",
        text: "There is no link at this address. It may be mistyped, or its owner has deleted it.",
        hint: "Upper-case and lower-case letters matter. Check the link where you found it.",
    },
    expired: MessageText {
        heading: "This link has expired",
        text: "Its expiry time has passed, so it no longer leads anywhere.",
        hint: "Ask the person who gave it to you for a new one.",
    },
    used_up: MessageText {
        heading: "This link is used up",
        text: "It could be followed a limited number of times, and has expired after the last one.",
        hint: "Ask the person who gave it to you for a new one.",
    },
    blocked: MessageText {
        heading: "This link is blocked",
        text: "It was blocked because of where it leads or because of its owner. We do not show \
            its target.",
        hint: "You did nothing wrong by following it. The link was not opened.",
    },
    unavailable: MessageText {
        heading: "Temporarily unavailable",
        text: "We cannot look this up right now. Links and accounts are not affected.",
        hint: "Try again in a few seconds.",
    },
    limited: MessageText {
        heading: "Too many requests",
        text: "There were too many requests from your network or from all visitors together.",
        hint: "Wait a minute and try again.",
    },
    too_many_tries: MessageText {
        heading: "Too many attempts",
        text: "The password was wrong too often, from your network or from all visitors together.",
        hint: "Ask the person who gave you the link for the password, and try again later.",
    },
    bad_form: MessageText {
        heading: "The form could not be read",
        text: "Your browser sent something other than our form.",
        hint: "Go back, reload the page and try again.",
    },
    wrong_method: MessageText {
        heading: "No page here",
        text: "This address has no page of its own. It only accepts our forms.",
        hint: "Start again from the home page.",
    },
    cross_site: MessageText {
        heading: "Request from another site",
        text: "Another website tried to send our form in your name. We refused the request.",
        hint: "If you want to do this, start from our own page.",
    },
    failed: MessageText {
        heading: "Something went wrong",
        text: "The mistake is on our side. It was logged.",
        hint: "Try again in a few seconds.",
    },
    unknown_host: MessageText {
        heading: "This address is not set up",
        text: "This server answers for {host}, and not for the host that you asked for.",
        hint: "If you run this server: set base_url to the address in your browser's address bar \
            (as TERSE_BASE_URL or in terse.toml), or add its host to domains, and start terse \
            again.",
    },

    contact_question: "If you have questions about this link, contact {contact}.",
    contact_mistake: "If you think that this is a mistake, contact {contact}.",
    operator: "the operator of this server",

    not_opened_yet: "The link has not been opened yet.",
    only_preview: "This is only a preview. The link was not opened.",
    not_opened: "The link was not opened.",
    report_link: "Report this link",

    password_heading: "Password required",
    password_lead: "This link is protected by a password.",
    password_careful: "Be careful. This link was reported as suspicious.",
    password_signs: "Be careful. This link has signs that are common in fraud:",
    password_then: "After you enter the password, we show you where the link leads before you \
        continue.",
    password: "Password",
    password_about: "This is the password of the link, not of one of your accounts. Ask the person \
        who gave you the link.",
    password_wrong: "This is not the password.",
    password_here: "Type the password here, please.",
    go_on: "Continue",

    preview_heading: "Link preview",
    preview_leads: "{link} leads to",
    title: "Title",
    created: "Created",
    expires: "Expires",
    never: "Never",
    clicks_left: "Clicks left",
    connection: "Connection",
    encrypted: "Encrypted (https)",
    not_encrypted: "Not encrypted (http)",
    safety: "Safety",
    suspicious: "Suspicious",
    no_problems: "No known problems",
    go_on_anyway: "Continue anyway",
    protected_heading: "Password protected",
    protected_lead: "{link} is protected by a password. Enter it to see where the link leads.",
    enter_password: "Enter the password",
    international: "This domain name contains international characters: {name}. Some look like \
        other letters, so check the name carefully.",

    rules_divide: "This link divides its visitors among several targets.",
    rules_elsewhere: "This link sends its visitors to another target.",
    rules_depend: "Where this link leads depends on {factors}.",
    rules_depend_divide: "Where this link leads depends on {factors}, and it divides some visitors \
        among several targets.",
    factor_device: "device",
    factor_language: "language",
    factor_country: "country",
    factor_query: "parameters of the short link",
    factor_time: "time",
    comma: ", ",
    and: " and ",
    other_targets: "Other targets:",

    warning_heading: "Suspicious link",
    warning_reported: "This link was reported as suspicious. It may try to steal passwords or \
        money.",
    warning_signs: "This link has signs that are common in fraud:",
    warning_only_if: "Continue only if you know this site and expected to go there:",
    back_to_safety: "Back to safety",
    go_on_to: "Continue to {host}",
    reason_reported: "Several visitors have reported it.",
    reason_mixed_script: "The site's name mixes letters of different alphabets, which can make it \
        look like another name.",
    reason_look_alike: "The site's name looks like that of a well-known site, but it is not that \
        site.",
    reason_userinfo: "The address has a user name before the site's name, which can make it look \
        like another site's.",
    reason_misleading_at: "The text after the @ looks like the site's name, but it is not.",
    reason_numeric_host: "The site has an IP address instead of a name.",
    reason_odd_address: "The site has a number instead of a name, in a form that is hard to \
        recognise.",
    reason_single_label: "The site's name has no dot, so it may mean something else on another \
        network.",
    reason_shortener: "The link leads to another short link, which hides where it ends.",
    reason_free_hosting: "The page is on a service where anyone can publish pages for free.",
    reason_open_redirect: "The address belongs to a well-known site but redirects to another one.",
    reason_disguised_text: "The site's name was written with invisible or look-alike characters.",
    reason_odd_slashes: "The address was written with an unusual number or kind of slashes.",
    reason_unscreened: "This site has not been checked yet.",
    reason_hidden_text: "The address contains invisible characters, or characters that show its \
        end in another order.",
    reason_on_warn_list: "The site is on a list of sites that need care, such as very new ones.",

    report_heading: "Report a link",
    report_lead: "What is wrong with {link}?",
    report_reason: "Reason",
    report_choose: "Choose a reason",
    report_phishing: "Phishing: it imitates another site or asks for passwords or money",
    report_malware: "Malware: it spreads harmful software",
    report_spam: "Spam: it is unwanted advertising",
    report_illegal: "Illegal content",
    report_other: "Something else",
    report_text: "What else should we know?",
    optional: "optional",
    report_private: "We do not store your IP address. Please do not write personal information \
        about yourself.",
    report_send: "Send report",
    report_preview: "Preview the link",
    report_choose_problem: "Choose a reason.",
    report_long: "Write at most {most} characters.",
    thanks_heading: "Thank you",
    thanks_text: "The moderators of this server have received your report. When several visitors \
        report the same link, its visitors see a warning.",

    date_time: "%-d %B %Y, %H:%M UTC",
    just_now: "just now",
    minutes_ago: Plural { one: "1 minute ago", other: "{n} minutes ago" },
    hours_ago: Plural { one: "1 hour ago", other: "{n} hours ago" },
    days_ago: Plural { one: "1 day ago", other: "{n} days ago" },
    months_ago: Plural { one: "1 month ago", other: "{n} months ago" },
    years_ago: Plural { one: "1 year ago", other: "{n} years ago" },
};
