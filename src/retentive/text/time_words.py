"""The words of time in six languages, as tables for `temporal`.

A table maps each *sort* of word to its words, without diacritics. In an enumeration the words stand in the order of
their values, with alternatives between slashes and `-` for a value that has no word. `_` is a blank in a phrase.

| sort | words |
|---|---|
| `M` `m` | months; `m` those that are also another word, and abbreviations |
| `W` `w` | weekdays; weekend |
| `U` | minute, hour, day, week, month, year |
| `S` `P` | spring, summer, autumn, winter; morning, afternoon, evening, night |
| `H` | holidays, in the order of `HOLIDAYS` |
| `D` `R` | today, yesterday, the day before; a few days ago |
| `n` `o` `v` `a` | numbers from 1; ordinals from 1; 2, 3 and 4 without precision; the indefinite article |
| `L` `p` `T` `X` | last; past; this; next and every |
| `A` `V` | ago after, and before the number (there also: before) |
| `s` `u` `b` `f` | since, until, before, after |
| `i` `e` `k` `g` `t` | in, on, at, of, the |
| `j` | in or to (à, a) |
| `E` | early, the end of |
| `B` `&` `-` | between and from; and; to |
| `N` `O` | conversation; our |
| `Q` | words that ask for what was said or done |
| `z` | nothing: left out |
"""

from __future__ import annotations

from typing import NamedTuple

HOLIDAYS = ("christmas", "christmas eve", "new year's eve", "new year", "easter", "pentecost", "valentine", "halloween",
            "thanksgiving")  # fmt: skip
"""The holidays, in the order of the tables."""


class Table(NamedTuple):
    """The words of one language.

    `phrases` are words that stand for several, each as its sort and value (`D1` is yesterday). `days` are the sorts of
    words one of which stands before a weekday that means a day; with a blank, none is needed. `rolling` are the sorts
    before a unit that mean the time up to now ("the last month", "le dernier mois") and not that of the calendar.
    """

    enumerations: dict[str, str]
    words: dict[str, str]
    phrases: dict[str, str]
    days: str
    rolling: str = "-"


_ENGLISH = Table(
    {
        "M": "january february - - - - july - september october november december",
        "m": "jan feb mar/march apr/april may jun/june jul aug/august sep/sept oct nov dec",
        "W": "monday tuesday wednesday thursday friday saturday sunday",
        "U": "minute/minutes hour/hours day/days week/weeks month/months year/years",
        "S": "spring summer autumn/fall winter",
        "P": "morning afternoon evening night",
        "H": "christmas/xmas christmas_eve/xmas_eve new_year_'_s_eve new_year/new_year_'_s/new_year_'_s_day easter "
        "pentecost/whitsun valentine_'_s/valentine_'_s_day halloween thanksgiving",
        "D": "today yesterday the_day_before_yesterday",
        "n": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty - - - - - - - - - thirty",
        "o": "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
        "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth - - - - - - - - - thirtieth",
        "v": "- a_couple/a_couple_of/couple/couple_of a_few/few several",
    },
    {
        "w": "weekend weekends",
        "R": "the_other_day",
        "a": "a an",
        "L": "last previous",
        "p": "past",
        "T": "this",
        "X": "next coming upcoming every each",
        "A": "ago or_so_ago or_two_ago",
        "s": "since",
        "u": "until till",
        "b": "before by",
        "f": "after",
        "i": "in during over throughout within",
        "e": "on around",
        "k": "at",
        "g": "of",
        "t": "the",
        "E": "early late mid",
        "B": "between from",
        "&": "and or",
        "-": "to through",
        "N": "session sessions conversation conversations discussion discussions chat chats "
        "time_we_talked time_we_spoke time_we_chatted times_we_talked",
        "O": "our",
        "Q": "talk talked talking discuss discussed say said chatted speak spoke spoken mention mentioned "
        "happen happened happening going summarize summary sorts things thing stuff topics topic events "
        "event give show list overview made",
    },
    {
        "last night": "D1 P3",
        "tonight": "D0 P3",
        "earlier today": "D0",
        "earlier this": "T0",
        "earlier in the": "T0",
        "this last": "p0",
        "this past": "p0",
        "half a": "h0",
        "half an": "h0",
        "today ' s": "x0",
        "our last": "O0 L0",
    },
    "eLpT",
    "tL",
)

_GERMAN = Table(
    {
        "M": "januar/janner/jan februar/feber/feb marz april/apr mai juni/jun juli/jul august/aug september/sep/sept "
        "oktober/okt november/nov dezember/dez",
        "W": "montag dienstag mittwoch donnerstag freitag samstag/sonnabend sonntag",
        "U": "minute/minuten stunde/stunden tag/tage/tagen/tages woche/wochen monat/monate/monaten/monats "
        "jahr/jahre/jahren/jahres",
        "S": "fruhling/fruhjahr sommer/sommers herbst winter/winters",
        "P": "morgen/vormittag/fruh nachmittag/mittag abend nacht",
        "H": "weihnachten heiligabend/heilig_abend silvester neujahr ostern pfingsten valentinstag halloween -",
        "D": "heute gestern vorgestern",
        "n": "eins zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn",
        "o": "erste/ersten/erster/erstes/erstem zweite/zweiten/zweiter/zweites dritte/dritten/dritter/drittes "
        "vierte/vierten/vierter/viertes funfte/funften/funfter sechste/sechsten/sechster siebte/siebten/siebter "
        "achte/achten/achter neunte/neunten zehnte/zehnten elfte/elften zwolfte/zwolften",
        "v": "- ein_paar/paar einigen/einige mehreren/mehrere",
    },
    {
        "w": "wochenende wochenenden",
        "R": "neulich letztens",
        "a": "ein eine einen einem einer",
        "L": "letzte letzten letzter letztes letztem vorige vorigen voriger voriges vergangene vergangenen vergangener "
        "vergangenes",
        "T": "diese diesen dieser dieses diesem",
        "X": "nachste nachsten nachster nachstes kommende kommenden jede jeden jedes jeder",
        "V": "vor",
        "s": "seit ab",
        "u": "bis_zu bis_zum",
        "f": "nach nach_dem",
        "i": "in im wahrend uber zu an",
        "e": "am",
        "g": "des von vom",
        "t": "der die das den dem",
        "E": "anfang ende mitte",
        "B": "zwischen",
        "&": "und",
        "-": "bis bis_zum",
        "N": "gesprach gesprache gesprachen gesprachs unterhaltung unterhaltungen sitzung sitzungen session sessions",
        "O": "unser unsere unserem unseren unserer unseres",
        "Q": "gesprochen sprechen besprochen gesagt sagen geredet erzahlt gemacht machen getan tun passiert "
        "passierte los war waren wir uns hatte haben was worum ging geschah geschehen zusammenfassung "
        "fasse zusammen",
        "z": "hier",
    },
    {
        "vorletzte woche": "n2 U3 A0",
        "vorletzten monat": "n2 U4 A0",
        "vorletztes jahr": "n2 U5 A0",
        "heuer": "T0 U5",
        "einem halben": "h0",
        "einer halben": "h0",
        "von gestern": "D1",
        "letzte nacht": "D1 P3",
        "heute nacht": "D0 P3",
        "in der letzten zeit": "R0",
        "bis heute": "x0",
    },
    "eLT",
)

_FRENCH = Table(
    {
        "M": "janvier fevrier - avril mai juin juillet aout septembre octobre novembre decembre",
        "m": "janv fevr/fev mars avr - - juil - sept oct nov dec",
        "W": "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "U": "minute/minutes heure/heures jour/jours/journee semaine/semaines mois an/ans/annee/annees",
        "S": "printemps ete automne hiver",
        "P": "matin/matinee apres_midi soir/soiree nuit",
        "H": "noel reveillon/veille_de_noel saint_sylvestre/la_saint_sylvestre nouvel_an/jour_de_l_an paques "
        "pentecote saint_valentin/la_saint_valentin halloween -",
        "D": "aujourd_hui hier avant_hier",
        "n": "- deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze",
        "o": "premier/premiere deuxieme/second/seconde troisieme quatrieme cinquieme sixieme septieme huitieme "
        "neuvieme dixieme",
        "v": "- - quelques plusieurs",
    },
    {
        "w": "week_end week_ends weekend",
        "R": "l_autre_jour autre_jour recemment",
        "a": "un une",
        "L": "dernier derniere derniers dernieres passe passee precedent precedente",
        "T": "ce cet cette",
        "X": "prochain prochaine prochains chaque tous_les toutes_les",
        "V": "il_y_a voici",
        "s": "depuis",
        "u": "jusqu_a jusqu_au jusqu_en",
        "b": "avant avant_le",
        "f": "apres apres_le",
        "i": "en dans pendant durant aux",
        "j": "au a",
        "g": "de du d",
        "t": "le la les l",
        "E": "debut fin mi",
        "B": "entre",
        "&": "et",
        "-": "jusqu_a jusqu_au",
        "N": "conversation conversations discussion discussions session sessions seance seances entretien",
        "O": "notre nos",
        "Q": "parle parler parlions discute discuter dit dire fait faire passe_t_il passe arrive resume choses "
        "chose quoi avons ai s_est qu",
    },
    {
        "de mai a": "B0 M5 -0",
        "six mois": "n6 U4",
        "hier soir": "D1 P2",
        "cette nuit": "D1 P3",
        "la nuit derniere": "D1 P3",
    },
    " LT",
    "L",
)

_SPANISH = Table(
    {
        "M": "enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre",
        "W": "lunes martes miercoles jueves viernes sabado domingo",
        "U": "minuto/minutos hora/horas dia/dias semana/semanas mes/meses ano/anos",
        "S": "primavera verano otono invierno",
        "P": "manana tarde atardecer noche",
        "H": "navidad/navidades nochebuena nochevieja/fin_de_ano ano_nuevo pascua/semana_santa pentecostes "
        "san_valentin halloween -",
        "D": "hoy ayer anteayer/antier/antes_de_ayer",
        "n": "- dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince",
        "o": "primer/primera/primero segunda/segundo tercer/tercera/tercero cuarta/cuarto quinta/quinto sexta/sexto "
        "septima/septimo octava/octavo novena/noveno decima/decimo",
        "v": "- un_par_de unos/unas/algunos/algunas varios/varias",
    },
    {
        "w": "fin_de_semana fines_de_semana",
        "R": "el_otro_dia hace_poco",
        "a": "un una",
        "L": "pasado pasada pasados pasadas ultimo ultima ultimos ultimas anterior",
        "T": "este esta",
        "X": "proximo proxima proximos cada todos_los todas_las que_viene",
        "A": "atras",
        "V": "hace",
        "s": "desde",
        "u": "hasta",
        "b": "antes_de antes_del",
        "f": "despues_de despues_del tras",
        "i": "en durante por",
        "g": "de del",
        "t": "el la los las",
        "E": "principios finales mediados inicios",
        "B": "entre",
        "&": "y e",
        "j": "a al",
        "-": "hasta hasta_el",
        "N": "conversacion conversaciones sesion sesiones charla charlas",
        "O": "nuestra nuestro nuestras nuestros",
        "Q": "hablamos hablado hablar hablo conversamos discutimos dijimos dije dicho hice hicimos hecho hacer "
        "paso pasado_algo ocurrio resume resumen cosas que hable he hemos",
    },
    {
        "anoche": "D1 P3",
        "antenoche": "D2 P3",
        "por la manana": "P0",
        "esta manana": "T0 P0",
        "esta noche": "D0 P3",
    },
    "tLT",
    "L",
)

_PORTUGUESE = Table(
    {
        "M": "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
        "W": "segunda_feira terca/terca_feira quarta_feira quinta_feira sexta_feira sabado domingo",
        "U": "minuto/minutos hora/horas dia/dias semana/semanas mes/meses ano/anos",
        "S": "primavera verao outono inverno",
        "P": "manha tarde noitinha noite",
        "H": "natal vespera_de_natal vespera_de_ano_novo/reveillon ano_novo pascoa pentecostes dia_dos_namorados "
        "halloween -",
        "D": "hoje ontem anteontem",
        "n": "- dois/duas tres quatro cinco seis sete oito nove dez onze doze treze quatorze quinze",
        "o": "primeira/primeiro segunda/segundo terceira/terceiro quarta/quarto quinta/quinto sexta/sexto "
        "setima/setimo oitava/oitavo nona/nono decima/decimo",
        "v": "- um_par_de/um_par alguns/algumas/uns/umas varios/varias",
    },
    {
        "w": "fim_de_semana fins_de_semana final_de_semana",
        "R": "outro_dia o_outro_dia",
        "a": "um uma",
        "L": "passado passada passados passadas ultimo ultima ultimos ultimas anterior",
        "T": "este esta deste desta neste nesta esse essa",
        "X": "proximo proxima proximos que_vem cada todo toda todos_os todas_as",
        "A": "atras",
        "V": "ha",
        "s": "desde",
        "u": "ate",
        "b": "antes_de antes_do antes_da",
        "f": "depois_de depois_do depois_da apos",
        "i": "em durante pela por",
        "e": "na no",
        "g": "de do da",
        "t": "o os as",
        "E": "inicio final meados comeco",
        "B": "entre",
        "&": "e",
        "j": "a",
        "-": "ate",
        "N": "conversa conversas sessao sessoes",
        "O": "nossa nosso nossas nossos",
        "Q": "eu falamos falado falar falei conversamos discutimos dissemos disse dito fiz fizemos feito fazer "
        "aconteceu resuma resumo coisas sobre nos",
    },
    {
        "ontem a noite": "D1 P3",
        "hoje de manha": "D0 P0",
        "esta manha": "T0 P0",
        "esta noite": "D0 P3",
        "nos ultimos": "L0",
        "nas ultimas": "L0",
    },
    "eLT",
    "L",
)

_DIGITS = ("一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二")
_DAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_WEEKS = ("周", "星期", "礼拜")

_CHINESE = Table(
    {
        "M": " ".join(f"{number}月/{number}月份/{at}月/{at}月份" for at, number in enumerate(_DIGITS, 1)),
        "W": " ".join(
            "/".join(f"{week}{day}" for week in _WEEKS for day, at in _DAYS.items() if at == n) for n in range(7)
        ),
        "U": "分钟 小时/个小时 天 周/星期/个星期/个礼拜/礼拜 个月 年",
        "S": "春天/春季 夏天/夏季 秋天/秋季 冬天/冬季",
        "P": "早上/早晨/上午 下午/中午 晚上/傍晚 夜里/半夜",
        "H": "圣诞节/圣诞 平安夜 除夕 元旦/新年 复活节 - 情人节 万圣节 感恩节",
        "D": "今天/今日 昨天/昨日 前天",
        "n": " ".join(_DIGITS),
        "o": " ".join(f"第{number}次/第{number}" for number in _DIGITS),
        "v": "两 几/好几",
    },
    {
        "w": "周末 个周末",
        "R": "前几天 前些天",
        "L": "上 上个 上一个 上次 上一次",
        "p": "过去 最近 近",
        "T": "这 这个 本",
        "X": "下 下个 每 每个 下周",
        "A": "前 之前 以前",
        "V": "vor",
        "s": "自从 自",
        "i": "在",
        "g": "的",
        "B": "从",
        "&": "和 与",
        "-": "到 至",
        "N": "对话 谈话 聊天 会话 交谈 谈",
        "O": "我们 我们的",
        "Q": "聊 聊了 谈了 谈论 说 说了 讨论 讨论了 做 做了 发生 发生了 干 干了 什么 哪些 了 吗 呢 我 你 事 事情 "
        "有 都 是 总结 吃",
        "z": "以来 之间 期间 里 中 间",
    },
    {
        "两": "n2",
        "去年": "L0 U5",
        "今年": "T0 U5",
        "前年": "n2 U5 A0",
        "上周": "L0 U3",
        "上星期": "L0 U3",
        "上个星期": "L0 U3",
        "上个月": "L0 U4",
        "上月": "L0 U4",
        "本周": "T0 U3",
        "这周": "T0 U3",
        "本月": "T0 U4",
        "这个月": "T0 U4",
        "上周末": "L0 w0",
        "上个周末": "L0 w0",
        "昨晚": "D1 P3",
        "今晚": "D0 P3",
        "今早": "D0 P0",
        "今天早上": "D0 P0",
        **{f"上{week}{day}": f"L0 U3 W{at}" for week in (*_WEEKS, "个星期") for day, at in _DAYS.items()},
        **{f"{day}{mark}": f"n{day}" for day in range(1, 32) for mark in "日号"},
        **{f"{year}年": f"Y{year}" for year in range(1950, 2050)},
    },
    " LT",
)

TABLES = {
    "english": _ENGLISH,
    "french": _FRENCH,
    "german": _GERMAN,
    "spanish": _SPANISH,
    "portuguese": _PORTUGUESE,
    "chinese": _CHINESE,
}
"""The tables by language."""
