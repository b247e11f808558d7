//! Portuguese.

use super::{Catalogue, MessageText, Plural};

pub(super) const MESSAGES: Catalogue = Catalogue {
    skip: "Ir para o conteúdo",
    home_label: "{name}, página inicial",
    site: "Site",
    sign_in: "Entrar",
    dashboard: "Painel",
    account: "Conta",
    add_plus: "Acrescente {plus} a qualquer link curto para ver aonde ele leva.",
    run_by: "Mantido por {name}",
    imprint: "Aviso legal",
    report_abuse: "Denunciar abuso",
    report_security: "Informar um problema de segurança",
    home_page: "Ir para a página inicial",

    not_found: MessageText {
        heading: "Não encontrado",
        text: "Não há nenhum link neste endereço. Ele pode ter sido escrito com erro, ou o link foi \
            apagado.",
        hint: "Letras maiúsculas e minúsculas fazem diferença. Confira o link onde o encontrou.",
    },
    expired: MessageText {
        heading: "Este link expirou",
        text: "O prazo de validade terminou. O link já não leva a lugar nenhum.",
        hint: "Peça um novo à pessoa que o deu a você.",
    },
    used_up: MessageText {
        heading: "Este link está esgotado",
        text: "Ele só podia ser aberto um número limitado de vezes e expirou depois da última.",
        hint: "Peça um novo à pessoa que o deu a você.",
    },
    blocked: MessageText {
        heading: "Este link está bloqueado",
        text: "Ele foi bloqueado por causa do destino ou do proprietário. Não mostramos o destino.",
        hint: "Você não fez nada de errado ao abri-lo. O link não foi aberto.",
    },
    unavailable: MessageText {
        heading: "Indisponível no momento",
        text: "Não podemos consultar isto agora. Os links e as contas não foram afetados.",
        hint: "Tente novamente em alguns segundos.",
    },
    limited: MessageText {
        heading: "Pedidos demais",
        text: "Houve pedidos demais da sua rede ou de todos os visitantes juntos.",
        hint: "Espere um minuto e tente novamente.",
    },
    too_many_tries: MessageText {
        heading: "Tentativas demais",
        text: "A senha esteve errada vezes demais, na sua rede ou entre todos os visitantes.",
        hint: "Peça a senha à pessoa que lhe deu o link e tente novamente mais tarde.",
    },
    bad_form: MessageText {
        heading: "Não foi possível ler o formulário",
        text: "Seu navegador enviou algo diferente do nosso formulário.",
        hint: "Volte, recarregue a página e tente novamente.",
    },
    wrong_method: MessageText {
        heading: "Não há página aqui",
        text: "Este endereço não tem página própria. Ele só aceita os nossos formulários.",
        hint: "Comece de novo pela página inicial.",
    },
    cross_site: MessageText {
        heading: "Pedido de outro site",
        text: "Outro site tentou enviar o nosso formulário em seu nome. Recusamos o pedido.",
        hint: "Se quiser fazer isto, comece pela nossa própria página.",
    },
    failed: MessageText {
        heading: "Algo deu errado",
        text: "O erro é nosso. Ele foi registrado.",
        hint: "Tente novamente em alguns segundos.",
    },
    unknown_host: MessageText {
        heading: "Este endereço não está configurado",
        text: "Este servidor responde por {host}, e não pelo endereço pedido.",
        hint: "Se você administra este servidor: defina base_url com o endereço que o navegador \
            mostra (como TERSE_BASE_URL ou em terse.toml), ou acrescente o host a domains, e \
            reinicie o terse.",
    },

    contact_question: "Se tiver perguntas sobre este link, entre em contato com {contact}.",
    contact_mistake: "Se acha que isto é um engano, entre em contato com {contact}.",
    operator: "a pessoa responsável por este servidor",

    not_opened_yet: "O link ainda não foi aberto.",
    only_preview: "Isto é apenas uma prévia. O link não foi aberto.",
    not_opened: "O link não foi aberto.",
    report_link: "Denunciar este link",

    password_heading: "Senha necessária",
    password_lead: "Este link é protegido por uma senha.",
    password_careful: "Tenha cuidado. Este link foi denunciado como suspeito.",
    password_signs: "Tenha cuidado. Este link tem sinais comuns em fraudes:",
    password_then: "Depois que você digitar a senha, mostramos aonde o link leva antes de \
        continuar.",
    password: "Senha",
    password_about: "É a senha do link, não a de uma das suas contas. Peça-a à pessoa que lhe deu o \
        link.",
    password_wrong: "Esta não é a senha.",
    password_here: "Digite a senha aqui, por favor.",
    go_on: "Continuar",

    preview_heading: "Prévia do link",
    preview_leads: "{link} leva a",
    title: "Título",
    created: "Criado",
    expires: "Expira",
    never: "Nunca",
    clicks_left: "Cliques restantes",
    connection: "Conexão",
    encrypted: "Criptografada (https)",
    not_encrypted: "Sem criptografia (http)",
    safety: "Segurança",
    suspicious: "Suspeito",
    no_problems: "Nenhum problema conhecido",
    go_on_anyway: "Continuar mesmo assim",
    protected_heading: "Protegido por senha",
    protected_lead: "{link} é protegido por uma senha. Digite-a para ver aonde o link leva.",
    enter_password: "Digitar a senha",
    international: "Este nome de domínio contém caracteres internacionais: {name}. Alguns se \
        parecem com outras letras; confira o nome com atenção.",

    rules_divide: "Este link divide os visitantes entre vários destinos.",
    rules_elsewhere: "Este link envia os visitantes a outro destino.",
    rules_depend: "O destino deste link depende de: {factors}.",
    rules_depend_divide: "O destino deste link depende de: {factors}. Além disso, ele divide uma \
        parte dos visitantes entre vários destinos.",
    factor_device: "dispositivo",
    factor_language: "idioma",
    factor_country: "país",
    factor_query: "parâmetros do link curto",
    factor_time: "horário",
    comma: ", ",
    and: " e ",
    other_targets: "Outros destinos:",

    warning_heading: "Link suspeito",
    warning_reported: "Este link foi denunciado como suspeito. Ele pode tentar roubar senhas ou \
        dinheiro.",
    warning_signs: "Este link tem sinais comuns em fraudes:",
    warning_only_if: "Continue apenas se conhece este site e queria ir até ele:",
    back_to_safety: "Voltar em segurança",
    go_on_to: "Continuar para {host}",
    reason_reported: "Vários visitantes o denunciaram.",
    reason_mixed_script: "O nome do site mistura letras de alfabetos diferentes e pode parecer \
        outro nome.",
    reason_look_alike: "O nome do site se parece com o de um site conhecido, mas não é esse site.",
    reason_userinfo: "O endereço tem um nome de usuário antes do nome do site e pode parecer o de \
        outro site.",
    reason_misleading_at: "O texto depois do @ parece o nome do site, mas não é.",
    reason_numeric_host: "O site tem um endereço IP em vez de um nome.",
    reason_odd_address: "O site tem um número em vez de um nome, em uma forma difícil de \
        reconhecer.",
    reason_single_label: "O nome do site não tem ponto e pode significar outra coisa em outra rede.",
    reason_shortener: "O link leva a outro link curto, que esconde onde termina.",
    reason_free_hosting: "A página está em um serviço onde qualquer pessoa pode publicar páginas de \
        graça.",
    reason_open_redirect: "O endereço pertence a um site conhecido, mas redireciona para outro.",
    reason_disguised_text: "O nome do site foi escrito com caracteres invisíveis ou parecidos com \
        outros.",
    reason_odd_slashes: "O endereço foi escrito com um número ou tipo incomum de barras.",
    reason_unscreened: "Este site ainda não foi verificado.",
    reason_hidden_text: "O endereço contém caracteres invisíveis, ou caracteres que mostram o seu \
        final em outra ordem.",
    reason_on_warn_list: "O site está em uma lista de sites que exigem cuidado, por exemplo por \
        serem muito novos.",

    report_heading: "Denunciar um link",
    report_lead: "O que há de errado com {link}?",
    report_reason: "Motivo",
    report_choose: "Escolha um motivo",
    report_phishing: "Phishing: imita outro site ou pede senhas ou dinheiro",
    report_malware: "Malware: espalha programas nocivos",
    report_spam: "Spam: é publicidade indesejada",
    report_illegal: "Conteúdo ilegal",
    report_other: "Outra coisa",
    report_text: "O que mais devemos saber?",
    optional: "opcional",
    report_private: "Não guardamos o seu endereço IP. Por favor, não escreva informações pessoais \
        sobre você.",
    report_send: "Enviar denúncia",
    report_preview: "Prévia do link",
    report_choose_problem: "Escolha um motivo, por favor.",
    report_long: "Escreva no máximo {most} caracteres.",
    thanks_heading: "Obrigado",
    thanks_text: "Os moderadores deste servidor receberam a sua denúncia. Quando vários visitantes \
        denunciam o mesmo link, os visitantes dele veem um aviso.",

    date_time: "%-d/%m/%Y, %H:%M UTC",
    just_now: "agora mesmo",
    minutes_ago: Plural { one: "há 1 minuto", other: "há {n} minutos" },
    hours_ago: Plural { one: "há 1 hora", other: "há {n} horas" },
    days_ago: Plural { one: "há 1 dia", other: "há {n} dias" },
    months_ago: Plural { one: "há 1 mês", other: "há {n} meses" },
    years_ago: Plural { one: "há 1 ano", other: "há {n} anos" },

    copy: "Copiar",
    copied: "Copiado",
    copy_by_key: "Selecionado. Pressione Ctrl+C ou ⌘C para copiar.",
    show: "Mostrar",
    hide: "Ocultar",
    show_password: "Mostrar a senha",
    hide_password: "Ocultar a senha",
    home_short_links: "{name} · links curtos",
    home_error: "Erro",
    home_made: "Seu link curto",
    home_qr: "Código QR do link curto",
    home_share: "Compartilhar",
    home_preview: "Prévia",
    home_qr_png: "QR como PNG",
    home_expires: "Expira: {time}.",
    home_another: "Encurtar outro link",
    home_heading: "Diga mais curto",
    home_lead: "Cole um link longo e receba um curto.",
    home_no_account: "Sem conta e sem cookies de rastreamento.",
    home_account_lead: "Entre para transformar links longos em curtos.",
    home_long_link: "Seu link longo",
    home_shorten: "Encurtar",
    home_options: "Alias próprio e validade",
    home_alias: "Alias próprio",
    home_anonymous: "Links criados sem conta expiram {when}.",
    home_keep: "Para mantê-los por mais tempo, {sign_in} ou use a API com uma chave.",
    home_sign_in: "entre na sua conta",
    home_signed_in: "Você está conectado. Os links criados aqui pertencem à sua conta e só \
        expiram se você escolher um prazo.",
    home_create_account: "Criar uma conta",
    home_closed: "É preciso ter uma conta para criar links neste servidor. Programas usam a API \
        com uma chave.",
    home_by_invitation: "As contas são criadas por convite. Peça a: {operator}.",
    home_admin: "a administração deste servidor",
    home_received: "Recebeu um link curto? Basta abri-lo. Não é preciso ter conta.",
    problem_url: "Este não é um endereço da web que possa ser encurtado. Ele tem a forma \
        https://example.com/pagina e no máximo 8.192 bytes.",
    problem_scheme: "Só é possível encurtar endereços http e https.",
    problem_loop: "Este endereço leva de volta a este servidor.",
    problem_private: "Este endereço está em uma rede privada, que os visitantes não alcançam.",
    problem_blocked: "Este endereço está bloqueado aqui, porque é conhecido como nocivo ou \
        indesejado.",
    problem_alias: "Um alias tem de 3 a 64 letras (A a Z, sem acentos), algarismos, hifens e \
        sublinhados.",
    problem_reserved: "Este alias está reservado. Escolha outro.",
    problem_taken: "Este alias já está em uso. Escolha outro.",
    problem_expiry: "Escolha um dos prazos da lista.",
    problem_limited: "Foram criados links demais em pouco tempo. Espere um pouco e tente \
        novamente.",
    problem_unavailable: "Não foi possível criar o link agora. Tente novamente em alguns segundos.",
    problem_form: "Não foi possível ler o formulário. Recarregue a página e tente novamente.",
    in_minutes: Plural { one: "em 1 minuto", other: "em {n} minutos" },
    in_hours: Plural { one: "em 1 hora", other: "em {n} horas" },
    in_days: Plural { one: "em 1 dia", other: "em {n} dias" },
    in_months: Plural { one: "em 1 mês", other: "em {n} meses" },
    in_years: Plural { one: "em 1 ano", other: "em {n} anos" },
};
