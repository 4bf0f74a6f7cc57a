"""Phrases of six languages with the time that they mean. Now is Thursday, 15 June 2023, half past two."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retentive.text.temporal import period

NOW = datetime(2023, 6, 15, 14, 30, tzinfo=UTC)

ENGLISH = """
what did we talk about on 8 May?                          2023-05-08 2023-05-09
what did we chat about on May eighth?                     2023-05-08 2023-05-09
what did we discuss on May twenty-fifth?                  2023-05-25 2023-05-26
the photos of 2023-05-08                                  2023-05-08 2023-05-09
the meeting on 8/5/2023                                   2023-05-08 2023-05-09
the meeting on 25/12/22                                   2022-12-25 2022-12-26
what did we chat about between May 8th and June 9th?      2023-05-08 2023-06-10
what was talked about from May eighth to June ninth?      2023-05-08 2023-06-10
what did we say over May 8th through June 9th?            2023-05-08 2023-06-10
notes from 8 to 12 May                                    2023-05-08 2023-05-13
between 3 and 5 April 2022                                2022-04-03 2022-04-06
between May and July                                      2022-05-01 2022-08-01
between May and July 2021                                 2021-05-01 2021-08-01
from November to February                                 2022-11-01 2023-03-01
from 2020 to 2022                                         2020-01-01 2023-01-01
in the first week of June                                 2023-06-01 2023-06-08
the second week of May 2022                               2022-05-08 2022-05-15
the last week of April                                    2023-04-24 2023-05-01
since Easter                                              2023-04-07 2023-06-15T14:30
what did I get at Christmas?                              2022-12-24 2022-12-27
on New Year's Eve                                         2022-12-31 2023-01-01
on Valentine's Day                                        2023-02-14 2023-02-15
last Halloween                                            2022-10-31 2022-11-01
at Easter 2021                                            2021-04-02 2021-04-06
over Thanksgiving                                         2022-11-24 2022-11-25
yesterday                                                 2023-06-14 2023-06-15
yesterday morning                                         2023-06-14 2023-06-14T12:00
what did we eat last night?                               2023-06-14T18:00 2023-06-15T06:00
what did I decide this morning?                           2023-06-15 2023-06-15T12:00
what did we discuss earlier today?                        2023-06-15 2023-06-16
what did he say on Monday evening?                        2023-06-12T17:00 2023-06-13
last Tuesday                                              2023-06-13 2023-06-14
on Tuesday of last week                                   2023-06-06 2023-06-07
last weekend                                              2023-06-10 2023-06-12
two weekends ago                                          2023-06-03 2023-06-05
167 days ago                                              2022-12-30 2022-12-31
three weeks ago                                           2023-05-22T02:30 2023-05-29T02:30
5 months ago                                              2023-01-01 2023-02-01
twenty-one days ago                                       2023-05-25 2023-05-26
over the last 3 days                                      2023-06-12 2023-06-15T14:30
over this last week                                       2023-06-08 2023-06-15T14:30
in the past two months                                    2023-04-15 2023-06-15T14:30
this month                                                2023-06-01 2023-06-15T14:30
in March                                                  2023-03-01 2023-04-01
last spring                                               2023-03-01 2023-06-01
in May of last year                                       2022-05-01 2022-06-01
last year in August                                       2022-08-01 2022-09-01
in the summer of 2021                                     2021-06-01 2021-09-01
2025-10 and 2022-10                                       2022-10-01 2022-11-01
in 2021                                                   2021-01-01 2022-01-01
the day before yesterday                                  2023-06-13 2023-06-14
"""

GERMAN = """
Was haben wir am 8. Mai besprochen?                       2023-05-08 2023-05-09
Was war am 8. Mai 2021?                                   2021-05-08 2021-05-09
am ersten Mai                                             2023-05-01 2023-05-02
am 08.05.2023                                             2023-05-08 2023-05-09
Was habe ich gestern gemacht?                             2023-06-14 2023-06-15
Was haben wir vorgestern gegessen?                        2023-06-13 2023-06-14
gestern Abend                                             2023-06-14T17:00 2023-06-15
Was habe ich heute Morgen entschieden?                    2023-06-15 2023-06-15T12:00
Was war letzte Nacht?                                     2023-06-14T18:00 2023-06-15T06:00
vor drei Tagen                                            2023-06-12 2023-06-13
Was habe ich vor drei Wochen gesagt?                      2023-05-22T02:30 2023-05-29T02:30
vor zwei Monaten                                          2023-04-01 2023-05-01
vor einem Jahr                                            2022-03-16T01:00 2022-09-14T16:00
vor zwei Stunden                                          2023-06-15T12:00 2023-06-15T13:00
letzte Woche                                              2023-06-05 2023-06-12
im letzten Monat                                          2023-05-01 2023-06-01
letztes Jahr                                              2022-01-01 2023-01-01
diese Woche                                               2023-06-12 2023-06-15T14:30
in diesem Jahr                                            2023-01-01 2023-06-15T14:30
in den letzten drei Tagen                                 2023-06-12 2023-06-15T14:30
Was habe ich am Montag gelernt?                           2023-06-12 2023-06-13
letzten Dienstag                                          2023-06-13 2023-06-14
am Samstag                                                2023-06-10 2023-06-11
am Wochenende                                             2023-06-10 2023-06-12
letztes Wochenende                                        2023-06-10 2023-06-12
Was ist im März passiert?                                 2023-03-01 2023-04-01
im Mai 2022                                               2022-05-01 2022-06-01
Anfang April                                              2023-04-01 2023-05-01
im Sommer                                                 2023-06-01 2023-09-01
letzten Sommer                                            2022-06-01 2022-09-01
im Herbst 2021                                            2021-09-01 2021-12-01
letztes Jahr im August                                    2022-08-01 2022-09-01
zwischen Mai und Juli                                     2022-05-01 2022-08-01
zwischen dem 8. Mai und dem 9. Juni                       2023-05-08 2023-06-10
vom 8. bis 12. Mai                                        2023-05-08 2023-05-13
seit Ostern                                               2023-04-07 2023-06-15T14:30
an Weihnachten                                            2022-12-24 2022-12-27
an Silvester                                              2022-12-31 2023-01-01
seit März                                                 2023-03-01 2023-06-15T14:30
in der ersten Woche im Juni                               2023-06-01 2023-06-08
im Jahr 2021                                              2021-01-01 2022-01-01
vorletzte Woche                                           2023-05-29T02:30 2023-06-05T02:30
"""

FRENCH = """
De quoi avons-nous parlé le 8 mai ?                       2023-05-08 2023-05-09
le 1er mai 2022                                           2022-05-01 2022-05-02
le 08/05/2023                                             2023-05-08 2023-05-09
Qu'est-ce que j'ai fait hier ?                            2023-06-14 2023-06-15
avant-hier                                                2023-06-13 2023-06-14
hier soir                                                 2023-06-14T17:00 2023-06-15
ce matin                                                  2023-06-15 2023-06-15T12:00
la nuit dernière                                          2023-06-14T18:00 2023-06-15T06:00
il y a trois jours                                        2023-06-12 2023-06-13
il y a trois semaines                                     2023-05-22T02:30 2023-05-29T02:30
il y a deux mois                                          2023-04-01 2023-05-01
il y a un an                                              2022-03-16T01:00 2022-09-14T16:00
la semaine dernière                                       2023-06-05 2023-06-12
le mois dernier                                           2023-05-01 2023-06-01
l'année dernière                                          2022-01-01 2023-01-01
cette semaine                                             2023-06-12 2023-06-15T14:30
ce mois                                                   2023-06-01 2023-06-15T14:30
ces trois derniers jours                                  2023-06-12 2023-06-15T14:30
les deux dernières semaines                               2023-06-01 2023-06-15T14:30
mardi dernier                                             2023-06-13 2023-06-14
lundi                                                     2023-06-12 2023-06-13
samedi soir                                               2023-06-10T17:00 2023-06-11
le week-end dernier                                       2023-06-10 2023-06-12
mardi de la semaine dernière                              2023-06-06 2023-06-07
Que s'est-il passé en mars ?                              2023-03-01 2023-04-01
en mai 2022                                               2022-05-01 2022-06-01
début avril                                               2023-04-01 2023-05-01
fin août                                                  2022-08-01 2022-09-01
au printemps                                              2023-03-01 2023-06-01
l'été dernier                                             2022-06-01 2022-09-01
en hiver 2021                                             2021-12-01 2022-03-01
en août de l'année dernière                               2022-08-01 2022-09-01
entre mai et juillet                                      2022-05-01 2022-08-01
entre le 8 mai et le 9 juin                               2023-05-08 2023-06-10
du 8 au 12 mai                                            2023-05-08 2023-05-13
depuis Pâques                                             2023-04-07 2023-06-15T14:30
à Noël                                                    2022-12-24 2022-12-27
depuis mars                                               2023-03-01 2023-06-15T14:30
la première semaine de juin                               2023-06-01 2023-06-08
en 2021                                                   2021-01-01 2022-01-01
"""

SPANISH = """
¿De qué hablamos el 8 de mayo?                            2023-05-08 2023-05-09
el 8 de mayo de 2021                                      2021-05-08 2021-05-09
el 8 de mayo del 2021                                     2021-05-08 2021-05-09
el 08/05/2023                                             2023-05-08 2023-05-09
¿Qué hice ayer?                                           2023-06-14 2023-06-15
anteayer                                                  2023-06-13 2023-06-14
anoche                                                    2023-06-14T18:00 2023-06-15T06:00
ayer por la tarde                                         2023-06-14T12:00 2023-06-14T18:00
esta mañana                                               2023-06-15 2023-06-15T12:00
hace tres días                                            2023-06-12 2023-06-13
hace tres semanas                                         2023-05-22T02:30 2023-05-29T02:30
hace dos meses                                            2023-04-01 2023-05-01
hace un año                                               2022-03-16T01:00 2022-09-14T16:00
tres semanas atrás                                        2023-05-22T02:30 2023-05-29T02:30
la semana pasada                                          2023-06-05 2023-06-12
el mes pasado                                             2023-05-01 2023-06-01
el año pasado                                             2022-01-01 2023-01-01
esta semana                                               2023-06-12 2023-06-15T14:30
este mes                                                  2023-06-01 2023-06-15T14:30
en los últimos tres días                                  2023-06-12 2023-06-15T14:30
las últimas dos semanas                                   2023-06-01 2023-06-15T14:30
en el último mes                                          2023-05-16 2023-06-15T14:30
el martes pasado                                          2023-06-13 2023-06-14
¿Qué hicimos el lunes?                                    2023-06-12 2023-06-13
el fin de semana pasado                                   2023-06-10 2023-06-12
el martes de la semana pasada                             2023-06-06 2023-06-07
¿Qué pasó en marzo?                                       2023-03-01 2023-04-01
en mayo de 2022                                           2022-05-01 2022-06-01
a principios de abril                                     2023-04-01 2023-05-01
a finales de agosto                                       2022-08-01 2022-09-01
en primavera                                              2023-03-01 2023-06-01
el verano pasado                                          2022-06-01 2022-09-01
en agosto del año pasado                                  2022-08-01 2022-09-01
entre mayo y julio                                        2022-05-01 2022-08-01
entre el 8 de mayo y el 9 de junio                        2023-05-08 2023-06-10
del 8 al 12 de mayo                                       2023-05-08 2023-05-13
desde Navidad                                             2022-12-24 2023-06-15T14:30
en Nochebuena                                             2022-12-24 2022-12-25
desde marzo                                               2023-03-01 2023-06-15T14:30
la primera semana de junio                                2023-06-01 2023-06-08
en 2021                                                   2021-01-01 2022-01-01
"""

PORTUGUESE = """
Sobre o que falamos em 8 de maio?                         2023-05-08 2023-05-09
no dia 8 de maio de 2021                                  2021-05-08 2021-05-09
em 08/05/2023                                             2023-05-08 2023-05-09
O que eu fiz ontem?                                       2023-06-14 2023-06-15
anteontem                                                 2023-06-13 2023-06-14
ontem à noite                                             2023-06-14T18:00 2023-06-15T06:00
hoje de manhã                                             2023-06-15 2023-06-15T12:00
ontem à tarde                                             2023-06-14T12:00 2023-06-14T18:00
há três dias                                              2023-06-12 2023-06-13
há três semanas                                           2023-05-22T02:30 2023-05-29T02:30
dois meses atrás                                          2023-04-01 2023-05-01
há um ano                                                 2022-03-16T01:00 2022-09-14T16:00
três semanas atrás                                        2023-05-22T02:30 2023-05-29T02:30
na semana passada                                         2023-06-05 2023-06-12
no mês passado                                            2023-05-01 2023-06-01
no ano passado                                            2022-01-01 2023-01-01
nesta semana                                              2023-06-12 2023-06-15T14:30
este mês                                                  2023-06-01 2023-06-15T14:30
nos últimos três dias                                     2023-06-12 2023-06-15T14:30
nas últimas duas semanas                                  2023-06-01 2023-06-15T14:30
na terça-feira passada                                    2023-06-13 2023-06-14
O que fizemos na segunda-feira?                           2023-06-12 2023-06-13
no sábado                                                 2023-06-10 2023-06-11
no fim de semana passado                                  2023-06-10 2023-06-12
O que aconteceu em março?                                 2023-03-01 2023-04-01
em maio de 2022                                           2022-05-01 2022-06-01
no início de abril                                        2023-04-01 2023-05-01
no final de agosto                                        2022-08-01 2022-09-01
na primavera                                              2023-03-01 2023-06-01
no verão passado                                          2022-06-01 2022-09-01
em agosto do ano passado                                  2022-08-01 2022-09-01
entre maio e julho                                        2022-05-01 2022-08-01
entre 8 de maio e 9 de junho                              2023-05-08 2023-06-10
de 8 a 12 de maio                                         2023-05-08 2023-05-13
desde a Páscoa                                            2023-04-07 2023-06-15T14:30
no Natal                                                  2022-12-24 2022-12-27
desde março                                               2023-03-01 2023-06-15T14:30
na primeira semana de junho                               2023-06-01 2023-06-08
em 2021                                                   2021-01-01 2022-01-01
"""

CHINESE = """
我们5月8日聊了什么？                                      2023-05-08 2023-05-09
2021年5月8日发生了什么                                    2021-05-08 2021-05-09
2023-05-08 的照片                                         2023-05-08 2023-05-09
五月八号                                                  2023-05-08 2023-05-09
我昨天做了什么？                                          2023-06-14 2023-06-15
前天                                                      2023-06-13 2023-06-14
昨晚我们吃了什么                                          2023-06-14T18:00 2023-06-15T06:00
今天早上我决定了什么                                      2023-06-15 2023-06-15T12:00
昨天下午                                                  2023-06-14T12:00 2023-06-14T18:00
三天前                                                    2023-06-12 2023-06-13
三周前我说了什么                                          2023-05-22T02:30 2023-05-29T02:30
三个星期前                                                2023-05-22T02:30 2023-05-29T02:30
两个月前                                                  2023-04-01 2023-05-01
5个月前                                                   2023-01-01 2023-02-01
一年前                                                    2022-03-16T01:00 2022-09-14T16:00
上周                                                      2023-06-05 2023-06-12
上个星期我们谈了什么                                      2023-06-05 2023-06-12
上个月                                                    2023-05-01 2023-06-01
去年                                                      2022-01-01 2023-01-01
这周                                                      2023-06-12 2023-06-15T14:30
今年                                                      2023-01-01 2023-06-15T14:30
最近三天                                                  2023-06-12 2023-06-15T14:30
过去两周                                                  2023-06-01 2023-06-15T14:30
上周二                                                    2023-06-06 2023-06-07
星期一                                                    2023-06-12 2023-06-13
上周末                                                    2023-06-10 2023-06-12
周末我做了什么                                            2023-06-10 2023-06-12
三月发生了什么                                            2023-03-01 2023-04-01
2022年5月                                                 2022-05-01 2022-06-01
去年八月                                                  2022-08-01 2022-09-01
去年夏天                                                  2022-06-01 2022-09-01
从五月到七月                                              2022-05-01 2022-08-01
5月8日到6月9日                                            2023-05-08 2023-06-10
圣诞节                                                    2022-12-24 2022-12-27
元旦                                                      2023-01-01 2023-01-02
2021年                                                    2021-01-01 2022-01-01
前几天                                                    2023-06-10 2023-06-15
"""

NOT_READ = """
may I ask who sat in the sun?
may I come in?
you may say so
march on
they march past the house
the second time
a second opinion
sat down at the table
he sat by the sun
mark my words
what is the best spring mattress?
I fall asleep in trains
June is my sister
August said hello
when did I visit Rome?
when is my birthday?
the day before the trip
every Monday
next week
tomorrow
in two weeks
which Friday dress do I like?
24/7 support
version 2.13 of the tool
error 1999
the 100 days of code
room 8 in May's house
last but not least
the first one
what is the last name of Ann?
Was ist hier los?
Was machen wir morgen?
nächste Woche
jeden Montag
Wo ist der Schlüssel?
in drei Wochen
das zweite Buch
un second avis
la semaine prochaine
tous les lundis
où est la clé ?
dans trois semaines
il est en train de lire
demain
los lunes
la próxima semana
en tres semanas
el mar y el sol
la segunda vez
¿Dónde está la llave?
a segunda vez
na próxima semana
daqui a três dias
onde está a chave?
明天做什么
下周
钥匙在哪里
三个苹果
"""


def _cases(text: str) -> list[tuple[str, datetime, datetime]]:
    lines = (line.rsplit(maxsplit=2) for line in text.strip().splitlines())
    return [(phrase, _at(start), _at(end)) for phrase, start, end in lines]


def _at(time: str) -> datetime:
    return datetime.fromisoformat(time).replace(tzinfo=UTC)


PHRASES = [case for text in (ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, CHINESE) for case in _cases(text)]


@pytest.mark.parametrize(("phrase", "start", "end"), PHRASES, ids=[phrase for phrase, *_ in PHRASES])
def test_a_phrase_means_this_time(phrase: str, start: datetime, end: datetime) -> None:
    found = period(phrase, now=NOW)

    assert found is not None
    assert (found.start.replace(second=0, microsecond=0), found.end.replace(second=0, microsecond=0)) == (start, end)


@pytest.mark.parametrize("phrase", NOT_READ.strip().splitlines())
def test_a_phrase_without_a_past_time_is_not_read(phrase: str) -> None:
    assert period(phrase, now=NOW) is None
