//! Spanish.

use super::{Catalogue, MessageText, Plural};

pub(super) const MESSAGES: Catalogue = Catalogue {
    skip: "Ir al contenido",
    home_label: "{name}, inicio",
    site: "Sitio",
    sign_in: "Iniciar sesión",
    dashboard: "Panel",
    account: "Cuenta",
    add_plus: "Añada {plus} a cualquier enlace corto para ver adónde lleva.",
    run_by: "Gestionado por {name}",
    imprint: "Aviso legal",
    report_abuse: "Denunciar un abuso",
    report_security: "Informar de un problema de seguridad",
    home_page: "Ir a la página de inicio",

    not_found: MessageText {
        heading: "No encontrado",
        text: "No hay ningún enlace en esta dirección. Puede que esté mal escrita o que se haya \
            eliminado el enlace.",
        hint: "Las mayúsculas y las minúsculas importan. Compruebe el enlace en el lugar donde lo \
            encontró.",
    },
    expired: MessageText {
        heading: "Este enlace ha caducado",
        text: "Su plazo de validez ha terminado y ya no lleva a ninguna parte.",
        hint: "Pida uno nuevo a la persona que se lo dio.",
    },
    used_up: MessageText {
        heading: "Este enlace está agotado",
        text: "Solo se podía abrir un número limitado de veces, y caducó después de la última.",
        hint: "Pida uno nuevo a la persona que se lo dio.",
    },
    blocked: MessageText {
        heading: "Este enlace está bloqueado",
        text: "Se bloqueó por el sitio al que lleva o por su propietario. No mostramos su destino.",
        hint: "Usted no hizo nada malo al seguirlo. El enlace no se abrió.",
    },
    unavailable: MessageText {
        heading: "No disponible por el momento",
        text: "Ahora mismo no podemos consultarlo. Los enlaces y las cuentas no se ven afectados.",
        hint: "Vuelva a intentarlo dentro de unos segundos.",
    },
    limited: MessageText {
        heading: "Demasiadas solicitudes",
        text: "Hubo demasiadas solicitudes desde su red o de todos los visitantes juntos.",
        hint: "Espere un minuto y vuelva a intentarlo.",
    },
    too_many_tries: MessageText {
        heading: "Demasiados intentos",
        text: "La contraseña fue incorrecta demasiadas veces, desde su red o entre todos los \
            visitantes.",
        hint: "Pida la contraseña a la persona que le dio el enlace y vuelva a intentarlo más \
            tarde.",
    },
    bad_form: MessageText {
        heading: "No se pudo leer el formulario",
        text: "Su navegador envió algo distinto de nuestro formulario.",
        hint: "Vuelva atrás, recargue la página e inténtelo de nuevo.",
    },
    wrong_method: MessageText {
        heading: "Aquí no hay ninguna página",
        text: "Esta dirección no tiene página propia. Solo acepta nuestros formularios.",
        hint: "Empiece de nuevo desde la página de inicio.",
    },
    cross_site: MessageText {
        heading: "Solicitud de otro sitio",
        text: "Otro sitio web intentó enviar nuestro formulario en su nombre. Rechazamos la \
            solicitud.",
        hint: "Si quiere hacerlo, empiece desde nuestra propia página.",
    },
    failed: MessageText {
        heading: "Algo salió mal",
        text: "El error es nuestro. Ha quedado registrado.",
        hint: "Vuelva a intentarlo dentro de unos segundos.",
    },
    unknown_host: MessageText {
        heading: "Esta dirección no está configurada",
        text: "Este servidor responde por {host}, y no por la dirección solicitada.",
        hint: "Si usted administra este servidor: ponga en base_url la dirección que muestra su \
            navegador (como TERSE_BASE_URL o en terse.toml), o añada su host a domains, y reinicie \
            terse.",
    },

    contact_question: "Si tiene preguntas sobre este enlace, póngase en contacto con {contact}.",
    contact_mistake: "Si cree que se trata de un error, póngase en contacto con {contact}.",
    operator: "la persona responsable de este servidor",

    not_opened_yet: "El enlace todavía no se ha abierto.",
    only_preview: "Esto es solo una vista previa. El enlace no se abrió.",
    not_opened: "El enlace no se abrió.",
    report_link: "Denunciar este enlace",

    password_heading: "Se necesita una contraseña",
    password_lead: "Este enlace está protegido con una contraseña.",
    password_careful: "Tenga cuidado. Este enlace fue denunciado como sospechoso.",
    password_signs: "Tenga cuidado. Este enlace presenta señales habituales en los fraudes:",
    password_then: "Cuando escriba la contraseña, le mostraremos adónde lleva el enlace antes de \
        continuar.",
    password: "Contraseña",
    password_about: "Es la contraseña del enlace, no la de una de sus cuentas. Pídala a la persona \
        que le dio el enlace.",
    password_wrong: "Esta no es la contraseña.",
    password_here: "Escriba la contraseña aquí, por favor.",
    go_on: "Continuar",

    preview_heading: "Vista previa del enlace",
    preview_leads: "{link} lleva a",
    title: "Título",
    created: "Creado",
    expires: "Caduca",
    never: "Nunca",
    clicks_left: "Clics restantes",
    connection: "Conexión",
    encrypted: "Cifrada (https)",
    not_encrypted: "Sin cifrar (http)",
    safety: "Seguridad",
    suspicious: "Sospechoso",
    no_problems: "Sin problemas conocidos",
    go_on_anyway: "Continuar de todos modos",
    protected_heading: "Protegido con contraseña",
    protected_lead: "{link} está protegido con una contraseña. Escríbala para ver adónde lleva el \
        enlace.",
    enter_password: "Escribir la contraseña",
    international: "Este nombre de dominio contiene caracteres internacionales: {name}. Algunos se \
        parecen a otras letras, así que compruebe bien el nombre.",

    rules_divide: "Este enlace reparte a sus visitantes entre varios destinos.",
    rules_elsewhere: "Este enlace envía a sus visitantes a otro destino.",
    rules_depend: "El destino de este enlace depende de: {factors}.",
    rules_depend_divide: "El destino de este enlace depende de: {factors}. Además, reparte a una \
        parte de los visitantes entre varios destinos.",
    factor_device: "dispositivo",
    factor_language: "idioma",
    factor_country: "país",
    factor_query: "parámetros del enlace corto",
    factor_time: "hora",
    comma: ", ",
    and: " y ",
    other_targets: "Otros destinos:",

    warning_heading: "Enlace sospechoso",
    warning_reported: "Este enlace fue denunciado como sospechoso. Puede que intente robar \
        contraseñas o dinero.",
    warning_signs: "Este enlace presenta señales habituales en los fraudes:",
    warning_only_if: "Continúe solo si conoce este sitio y quería ir a él:",
    back_to_safety: "Volver a un lugar seguro",
    go_on_to: "Continuar a {host}",
    reason_reported: "Varios visitantes lo han denunciado.",
    reason_mixed_script: "El nombre del sitio mezcla letras de distintos alfabetos y puede parecer \
        otro nombre.",
    reason_look_alike: "El nombre del sitio se parece al de un sitio conocido, pero no es ese \
        sitio.",
    reason_userinfo: "La dirección tiene un nombre de usuario antes del nombre del sitio y puede \
        parecer la de otro sitio.",
    reason_misleading_at: "El texto después de la @ parece el nombre del sitio, pero no lo es.",
    reason_numeric_host: "El sitio tiene una dirección IP en lugar de un nombre.",
    reason_odd_address: "El sitio tiene un número en lugar de un nombre, en una forma difícil de \
        reconocer.",
    reason_single_label: "El nombre del sitio no tiene ningún punto y puede significar otra cosa \
        en otra red.",
    reason_shortener: "El enlace lleva a otro enlace corto, que oculta dónde termina.",
    reason_free_hosting: "La página está en un servicio donde cualquiera puede publicar páginas \
        gratis.",
    reason_open_redirect: "La dirección pertenece a un sitio conocido, pero redirige a otro.",
    reason_disguised_text: "El nombre del sitio se escribió con caracteres invisibles o parecidos \
        a otros.",
    reason_odd_slashes: "La dirección se escribió con un número o un tipo de barras poco habitual.",
    reason_unscreened: "Este sitio todavía no se ha comprobado.",
    reason_hidden_text: "La dirección contiene caracteres invisibles, o caracteres que muestran su \
        final en otro orden.",
    reason_on_warn_list: "El sitio está en una lista de sitios que requieren cuidado, por ejemplo \
        por ser muy nuevos.",

    report_heading: "Denunciar un enlace",
    report_lead: "¿Qué problema hay con {link}?",
    report_reason: "Motivo",
    report_choose: "Elija un motivo",
    report_phishing: "Suplantación: imita a otro sitio o pide contraseñas o dinero",
    report_malware: "Software malicioso: difunde programas dañinos",
    report_spam: "Spam: es publicidad no deseada",
    report_illegal: "Contenido ilegal",
    report_other: "Otra cosa",
    report_text: "¿Qué más deberíamos saber?",
    optional: "opcional",
    report_private: "No guardamos su dirección IP. No escriba datos personales sobre usted, por \
        favor.",
    report_send: "Enviar denuncia",
    report_preview: "Vista previa del enlace",
    report_choose_problem: "Elija un motivo, por favor.",
    report_long: "Escriba como máximo {most} caracteres.",
    thanks_heading: "Gracias",
    thanks_text: "Los moderadores de este servidor han recibido su denuncia. Cuando varios \
        visitantes denuncian el mismo enlace, sus visitantes ven una advertencia.",

    date_time: "%-d/%-m/%Y, %H:%M UTC",
    just_now: "ahora mismo",
    minutes_ago: Plural { one: "hace 1 minuto", other: "hace {n} minutos" },
    hours_ago: Plural { one: "hace 1 hora", other: "hace {n} horas" },
    days_ago: Plural { one: "hace 1 día", other: "hace {n} días" },
    months_ago: Plural { one: "hace 1 mes", other: "hace {n} meses" },
    years_ago: Plural { one: "hace 1 año", other: "hace {n} años" },

    copy: "Copiar",
    copied: "Copiado",
    copy_by_key: "Seleccionado. Pulse Ctrl+C o ⌘C para copiar.",
    show: "Mostrar",
    hide: "Ocultar",
    show_password: "Mostrar la contraseña",
    hide_password: "Ocultar la contraseña",
    home_short_links: "{name} · enlaces cortos",
    home_error: "Error",
    home_made: "Su enlace corto",
    home_qr: "Código QR del enlace corto",
    home_share: "Compartir",
    home_preview: "Vista previa",
    home_qr_png: "QR como PNG",
    home_expires: "Caduca: {time}.",
    home_another: "Acortar otro enlace",
    home_heading: "Dígalo más corto",
    home_lead: "Pegue un enlace largo y obtenga uno corto.",
    home_no_account: "Sin cuenta y sin cookies de seguimiento.",
    home_account_lead: "Inicie sesión para convertir enlaces largos en cortos.",
    home_long_link: "Su enlace largo",
    home_shorten: "Acortar",
    home_options: "Alias propio y caducidad",
    home_alias: "Alias propio",
    home_anonymous: "Los enlaces creados sin cuenta caducan {when}.",
    home_keep: "Para conservarlos más tiempo, {sign_in} o use la API con una clave.",
    home_sign_in: "inicie sesión",
    home_signed_in: "Ha iniciado sesión. Los enlaces que cree aquí pertenecen a su cuenta y no \
        caducan salvo que elija un plazo.",
    home_create_account: "Crear una cuenta",
    home_closed: "Necesita una cuenta para crear enlaces en este servidor. Los programas usan \
        la API con una clave.",
    home_by_invitation: "Las cuentas se obtienen por invitación. Puede pedirla a: {operator}.",
    home_admin: "la administración de este servidor",
    home_received: "¿Ha recibido un enlace corto? Ábralo sin más. No hace falta ninguna cuenta.",
    problem_url: "Esta no es una dirección web que se pueda acortar. Debe tener la forma \
        https://example.com/pagina y 8192 bytes como máximo.",
    problem_scheme: "Solo se pueden acortar direcciones http y https.",
    problem_loop: "Esta dirección lleva de vuelta a este servidor.",
    problem_private: "Esta dirección está en una red privada, a la que los visitantes no pueden \
        llegar.",
    problem_blocked: "Esta dirección está bloqueada aquí porque se sabe que es dañina o no \
        deseada.",
    problem_alias: "Un alias tiene de 3 a 64 letras (de la A a la Z, sin tildes), cifras, \
        guiones y guiones bajos.",
    problem_reserved: "Este alias está reservado. Elija otro.",
    problem_taken: "Este alias ya está en uso. Elija otro.",
    problem_expiry: "Elija uno de los plazos de la lista.",
    problem_limited: "Se crearon demasiados enlaces en poco tiempo. Espere un poco y vuelva a \
        intentarlo.",
    problem_unavailable: "No se pudo crear el enlace en este momento. Vuelva a intentarlo dentro \
        de unos segundos.",
    problem_form: "No se pudo leer el formulario. Recargue la página e inténtelo de nuevo.",
    in_minutes: Plural { one: "en 1 minuto", other: "en {n} minutos" },
    in_hours: Plural { one: "en 1 hora", other: "en {n} horas" },
    in_days: Plural { one: "en 1 día", other: "en {n} días" },
    in_months: Plural { one: "en 1 mes", other: "en {n} meses" },
    in_years: Plural { one: "en 1 año", other: "en {n} años" },
};
