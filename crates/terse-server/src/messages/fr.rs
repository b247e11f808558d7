//! French.

use super::{Catalogue, MessageText, Plural};

pub(super) const MESSAGES: Catalogue = Catalogue {
    skip: "Aller au contenu",
    home_label: "{name}, accueil",
    site: "Site",
    sign_in: "Se connecter",
    dashboard: "Tableau de bord",
    account: "Compte",
    add_plus: "Ajoutez {plus} à un lien court pour voir où il mène.",
    run_by: "Géré par {name}",
    imprint: "Mentions légales",
    report_abuse: "Signaler un abus",
    report_security: "Signaler un problème de sécurité",
    home_page: "Aller à la page d’accueil",

    not_found: MessageText {
        heading: "Introuvable",
        text: "Il n’y a pas de lien à cette adresse. Elle est peut-être mal écrite, ou le lien a \
            été supprimé.",
        hint: "Les majuscules et les minuscules comptent. Vérifiez le lien là où vous l’avez \
            trouvé.",
    },
    expired: MessageText {
        heading: "Ce lien a expiré",
        text: "Sa durée de validité est passée. Il ne mène plus nulle part.",
        hint: "Demandez-en un nouveau à la personne qui vous l’a donné.",
    },
    used_up: MessageText {
        heading: "Ce lien est épuisé",
        text: "Il ne pouvait être suivi qu’un nombre limité de fois, et il a expiré après la \
            dernière.",
        hint: "Demandez-en un nouveau à la personne qui vous l’a donné.",
    },
    blocked: MessageText {
        heading: "Ce lien est bloqué",
        text: "Il a été bloqué à cause de sa destination ou de son propriétaire. Nous n’affichons \
            pas sa destination.",
        hint: "Vous n’avez rien fait de mal en le suivant. Le lien n’a pas été ouvert.",
    },
    unavailable: MessageText {
        heading: "Momentanément indisponible",
        text: "Nous ne pouvons pas vérifier cela maintenant. Les liens et les comptes ne sont pas \
            touchés.",
        hint: "Réessayez dans quelques secondes.",
    },
    limited: MessageText {
        heading: "Trop de requêtes",
        text: "Il y a eu trop de requêtes depuis votre réseau ou de tous les visiteurs ensemble.",
        hint: "Attendez une minute, puis réessayez.",
    },
    too_many_tries: MessageText {
        heading: "Trop de tentatives",
        text: "Le mot de passe a été faux trop souvent, depuis votre réseau ou pour tous les \
            visiteurs ensemble.",
        hint: "Demandez le mot de passe à la personne qui vous a donné le lien, et réessayez plus \
            tard.",
    },
    bad_form: MessageText {
        heading: "Le formulaire n’a pas pu être lu",
        text: "Votre navigateur a envoyé autre chose que notre formulaire.",
        hint: "Revenez en arrière, rechargez la page et réessayez.",
    },
    wrong_method: MessageText {
        heading: "Il n’y a pas de page ici",
        text: "Cette adresse n’a pas de page. Elle n’accepte que nos formulaires.",
        hint: "Recommencez depuis la page d’accueil.",
    },
    cross_site: MessageText {
        heading: "Requête d’un autre site",
        text: "Un autre site a essayé d’envoyer notre formulaire en votre nom. Nous avons refusé \
            la requête.",
        hint: "Si vous voulez le faire, commencez depuis notre propre page.",
    },
    failed: MessageText {
        heading: "Une erreur s’est produite",
        text: "L’erreur vient de nous. Elle a été enregistrée.",
        hint: "Réessayez dans quelques secondes.",
    },
    unknown_host: MessageText {
        heading: "Cette adresse n’est pas configurée",
        text: "Ce serveur répond pour {host}, et non pour l’adresse demandée.",
        hint: "Si vous gérez ce serveur : indiquez dans base_url l’adresse affichée par votre \
            navigateur (par TERSE_BASE_URL ou dans terse.toml), ou ajoutez son hôte à domains, \
            puis redémarrez terse.",
    },

    contact_question: "Si vous avez des questions sur ce lien, contactez {contact}.",
    contact_mistake: "Si vous pensez qu’il s’agit d’une erreur, contactez {contact}.",
    operator: "la personne qui gère ce serveur",

    not_opened_yet: "Le lien n’a pas encore été ouvert.",
    only_preview: "Ceci n’est qu’un aperçu. Le lien n’a pas été ouvert.",
    not_opened: "Le lien n’a pas été ouvert.",
    report_link: "Signaler ce lien",

    password_heading: "Mot de passe demandé",
    password_lead: "Ce lien est protégé par un mot de passe.",
    password_careful: "Soyez prudent. Ce lien a été signalé comme suspect.",
    password_signs: "Soyez prudent. Ce lien présente des signes fréquents dans les fraudes :",
    password_then: "Une fois le mot de passe saisi, nous vous montrons où mène le lien avant de \
        continuer.",
    password: "Mot de passe",
    password_about: "C’est le mot de passe du lien, et non celui d’un de vos comptes. Demandez-le \
        à la personne qui vous a donné le lien.",
    password_wrong: "Ce n’est pas le bon mot de passe.",
    password_here: "Veuillez saisir le mot de passe ici.",
    go_on: "Continuer",

    preview_heading: "Aperçu du lien",
    preview_leads: "{link} mène à",
    title: "Titre",
    created: "Créé",
    expires: "Expire",
    never: "Jamais",
    clicks_left: "Clics restants",
    connection: "Connexion",
    encrypted: "Chiffrée (https)",
    not_encrypted: "Non chiffrée (http)",
    safety: "Sécurité",
    suspicious: "Suspect",
    no_problems: "Aucun problème connu",
    go_on_anyway: "Continuer quand même",
    protected_heading: "Protégé par un mot de passe",
    protected_lead: "{link} est protégé par un mot de passe. Saisissez-le pour voir où mène le \
        lien.",
    enter_password: "Saisir le mot de passe",
    international: "Ce nom de domaine contient des caractères internationaux : {name}. Certains \
        ressemblent à d’autres lettres ; vérifiez bien le nom.",

    rules_divide: "Ce lien répartit ses visiteurs entre plusieurs destinations.",
    rules_elsewhere: "Ce lien envoie ses visiteurs vers une autre destination.",
    rules_depend: "La destination de ce lien dépend de : {factors}.",
    rules_depend_divide: "La destination de ce lien dépend de : {factors}. Il répartit aussi une \
        partie des visiteurs entre plusieurs destinations.",
    factor_device: "appareil",
    factor_language: "langue",
    factor_country: "pays",
    factor_query: "paramètres du lien court",
    factor_time: "heure",
    comma: ", ",
    and: " et ",
    other_targets: "Autres destinations :",

    warning_heading: "Lien suspect",
    warning_reported: "Ce lien a été signalé comme suspect. Il cherche peut-être à voler des mots \
        de passe ou de l’argent.",
    warning_signs: "Ce lien présente des signes fréquents dans les fraudes :",
    warning_only_if: "Continuez seulement si vous connaissez ce site et vouliez y aller :",
    back_to_safety: "Revenir en lieu sûr",
    go_on_to: "Continuer vers {host}",
    reason_reported: "Plusieurs visiteurs l’ont signalé.",
    reason_mixed_script: "Le nom du site mélange des lettres de plusieurs alphabets et peut \
        ressembler à un autre nom.",
    reason_look_alike: "Le nom du site ressemble à celui d’un site connu, mais ce n’est pas ce \
        site.",
    reason_userinfo: "L’adresse contient un nom d’utilisateur avant le nom du site et peut \
        ressembler à celle d’un autre site.",
    reason_misleading_at: "Le texte après le @ ressemble au nom du site, mais ce n’est pas lui.",
    reason_numeric_host: "Le site a une adresse IP au lieu d’un nom.",
    reason_odd_address: "Le site a un nombre au lieu d’un nom, sous une forme difficile à \
        reconnaître.",
    reason_single_label: "Le nom du site n’a pas de point et peut désigner autre chose sur un \
        autre réseau.",
    reason_shortener: "Le lien mène à un autre lien court, qui cache où il aboutit.",
    reason_free_hosting: "La page se trouve sur un service où chacun peut publier des pages \
        gratuitement.",
    reason_open_redirect: "L’adresse appartient à un site connu, mais redirige vers un autre.",
    reason_disguised_text: "Le nom du site a été écrit avec des caractères invisibles ou \
        ressemblants.",
    reason_odd_slashes: "L’adresse a été écrite avec un nombre ou un type de barres inhabituel.",
    reason_unscreened: "Ce site n’a pas encore été vérifié.",
    reason_hidden_text: "L’adresse contient des caractères invisibles, ou des caractères qui en \
        montrent la fin dans un autre ordre.",
    reason_on_warn_list: "Le site figure sur une liste de sites qui demandent de la prudence, par \
        exemple parce qu’ils sont très récents.",

    report_heading: "Signaler un lien",
    report_lead: "Quel est le problème avec {link} ?",
    report_reason: "Motif",
    report_choose: "Choisissez un motif",
    report_phishing: "Hameçonnage : imite un autre site ou demande des mots de passe ou de \
        l’argent",
    report_malware: "Logiciel malveillant : diffuse des programmes nuisibles",
    report_spam: "Spam : publicité non désirée",
    report_illegal: "Contenu illégal",
    report_other: "Autre chose",
    report_text: "Que devrions-nous encore savoir ?",
    optional: "facultatif",
    report_private: "Nous n’enregistrons pas votre adresse IP. N’écrivez pas d’informations \
        personnelles à votre sujet.",
    report_send: "Envoyer le signalement",
    report_preview: "Aperçu du lien",
    report_choose_problem: "Veuillez choisir un motif.",
    report_long: "Écrivez au plus {most} caractères.",
    thanks_heading: "Merci",
    thanks_text: "Les modérateurs de ce serveur ont reçu votre signalement. Quand plusieurs \
        visiteurs signalent le même lien, ses visiteurs voient un avertissement.",

    date_time: "%-d/%m/%Y, %H:%M UTC",
    just_now: "à l’instant",
    minutes_ago: Plural { one: "il y a 1 minute", other: "il y a {n} minutes" },
    hours_ago: Plural { one: "il y a 1 heure", other: "il y a {n} heures" },
    days_ago: Plural { one: "il y a 1 jour", other: "il y a {n} jours" },
    months_ago: Plural { one: "il y a 1 mois", other: "il y a {n} mois" },
    years_ago: Plural { one: "il y a 1 an", other: "il y a {n} ans" },

    copy: "Copier",
    copied: "Copié",
    copy_by_key: "Sélectionné. Appuyez sur Ctrl+C ou ⌘C pour copier.",
    show: "Afficher",
    hide: "Masquer",
    show_password: "Afficher le mot de passe",
    hide_password: "Masquer le mot de passe",
    home_short_links: "{name} · liens courts",
    home_error: "Erreur",
    home_made: "Votre lien court",
    home_qr: "Code QR du lien court",
    home_share: "Partager",
    home_preview: "Aperçu",
    home_qr_png: "QR en PNG",
    home_expires: "Expire : {time}.",
    home_another: "Raccourcir un autre lien",
    home_heading: "Dites-le plus court",
    home_lead: "Collez un lien long, obtenez un lien court.",
    home_no_account: "Sans compte ni cookies de suivi.",
    home_account_lead: "Connectez-vous pour raccourcir des liens.",
    home_long_link: "Votre lien long",
    home_shorten: "Raccourcir",
    home_options: "Alias personnalisé et expiration",
    home_alias: "Alias personnalisé",
    home_anonymous: "Les liens créés sans compte expirent {when}.",
    home_keep: "Pour les garder plus longtemps, {sign_in} ou utilisez l’API avec une clé.",
    home_sign_in: "connectez-vous",
    home_signed_in: "Vous êtes connecté. Les liens créés ici appartiennent à votre compte et \
        n’expirent que si vous choisissez une durée.",
    home_create_account: "Créer un compte",
    home_closed: "Il faut un compte pour créer des liens sur ce serveur. Les programmes \
        utilisent l’API avec une clé.",
    home_by_invitation: "Les comptes sont créés sur invitation. Contact : {operator}.",
    home_admin: "l’administration de ce serveur",
    home_received: "Vous avez reçu un lien court ? Ouvrez-le simplement. Aucun compte n’est \
        nécessaire.",
    problem_url: "Ce n’est pas une adresse web qui puisse être raccourcie. Elle ressemble à \
        https://example.com/page et compte 8 192 octets au plus.",
    problem_scheme: "Seules les adresses http et https peuvent être raccourcies.",
    problem_loop: "Cette adresse ramène à ce serveur.",
    problem_private: "Cette adresse est sur un réseau privé, inaccessible aux visiteurs.",
    problem_blocked: "Cette adresse est bloquée ici, car elle est connue comme nuisible ou \
        indésirable.",
    problem_alias: "Un alias compte de 3 à 64 lettres (A à Z, sans accents), chiffres, tirets et \
        tirets bas.",
    problem_reserved: "Cet alias est réservé. Choisissez-en un autre.",
    problem_taken: "Cet alias est déjà pris. Choisissez-en un autre.",
    problem_expiry: "Choisissez l’une des durées proposées.",
    problem_limited: "Trop de liens ont été créés en peu de temps. Attendez un peu, puis \
        réessayez.",
    problem_unavailable: "Le lien n’a pas pu être créé pour le moment. Réessayez dans quelques \
        secondes.",
    problem_form: "Le formulaire n’a pas pu être lu. Rechargez la page et réessayez.",
    in_minutes: Plural { one: "dans 1 minute", other: "dans {n} minutes" },
    in_hours: Plural { one: "dans 1 heure", other: "dans {n} heures" },
    in_days: Plural { one: "dans 1 jour", other: "dans {n} jours" },
    in_months: Plural { one: "dans 1 mois", other: "dans {n} mois" },
    in_years: Plural { one: "dans 1 an", other: "dans {n} ans" },
};
