"""Japanese names: Faker's, and further ones with readings, so that namesakes are rare.

Faker has 50 surnames (with weights) and 51 given names (with none): of 100,000 people some 57
would share a full name with any one of them. The names below are added. What is not known: the
weights of the added surnames (they go on from Faker's last one as 1 / rank), how common a given
name is (each one of a sex and time of birth counts the same).
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from audit.deid.name_variants import NamePart, romaji_of

# Most common first, as far as that is known.
_SURNAMES = """
中野 ナカノ 原田 ハラダ 小野 オノ 竹内 タケウチ 田村 タムラ 金子 カネコ 和田 ワダ 中山 ナカヤマ
石田 イシダ 上田 ウエダ 森田 モリタ 原 ハラ 柴田 シバタ 酒井 サカイ 工藤 クドウ 横山 ヨコヤマ
宮崎 ミヤザキ 宮本 ミヤモト 内田 ウチダ 高木 タカギ 安藤 アンドウ 谷口 タニグチ 大野 オオノ
丸山 マルヤマ 今井 イマイ 高田 タカダ 藤本 フジモト 武田 タケダ 村田 ムラタ 上野 ウエノ
杉山 スギヤマ 増田 マスダ 菅原 スガワラ 平野 ヒラノ 大塚 オオツカ 千葉 チバ 久保 クボ 松井 マツイ
岩崎 イワサキ 桜井 サクライ 野口 ノグチ 松尾 マツオ 木下 キノシタ 菊地 キクチ 野村 ノムラ
新井 アライ 渡部 ワタナベ 佐野 サノ 杉本 スギモト 大西 オオニシ 古川 フルカワ 浜田 ハマダ
市川 イチカワ 小松 コマツ 高野 タカノ 水野 ミズノ 山内 ヤマウチ 西田 ニシダ 菊池 キクチ
西川 ニシカワ 五十嵐 イガラシ 北村 キタムラ 安田 ヤスダ 中田 ナカタ 川口 カワグチ 平田 ヒラタ
川崎 カワサキ 飯田 イイダ 吉川 ヨシカワ 本田 ホンダ 久保田 クボタ 沢田 サワダ 辻 ツジ 関 セキ
吉村 ヨシムラ 中西 ナカニシ 服部 ハットリ 岩田 イワタ 川上 カワカミ 樋口 ヒグチ 福島 フクシマ
永井 ナガイ 田口 タグチ 山中 ヤマナカ 土屋 ツチヤ 矢野 ヤノ 広瀬 ヒロセ 秋山 アキヤマ
石原 イシハラ 松下 マツシタ 大橋 オオハシ 松浦 マツウラ 吉岡 ヨシオカ 小池 コイケ 馬場 ババ
浅野 アサノ 荒木 アラキ 大久保 オオクボ 野田 ノダ 小沢 オザワ 田辺 タナベ 川村 カワムラ
星野 ホシノ 黒田 クロダ 堀 ホリ 尾崎 オザキ 望月 モチヅキ 永田 ナガタ 熊谷 クマガイ 内藤 ナイトウ
松村 マツムラ 西山 ニシヤマ 大谷 オオタニ 平井 ヒライ 大島 オオシマ 岩本 イワモト 片山 カタヤマ
本間 ホンマ 早川 ハヤカワ 横田 ヨコタ 岡崎 オカザキ 荒井 アライ 大石 オオイシ 鎌田 カマタ
成田 ナリタ 宮田 ミヤタ 小田 オダ 石橋 イシバシ 篠原 シノハラ 須藤 スドウ 河野 コウノ
大沢 オオサワ 小西 コニシ 南 ミナミ 高山 タカヤマ 栗原 クリハラ 伊東 イトウ 松原 マツバラ
三宅 ミヤケ 福井 フクイ 大森 オオモリ 奥村 オクムラ 岡 オカ 内山 ウチヤマ 片岡 カタオカ
足立 アダチ 榎本 エノモト 戸田 トダ
"""
# Sex and time of birth: "old" before 1950, "middle" to 1979, "young" after. A name may be in two.
_GIVEN = {
    "M old": """
清 キヨシ 茂 シゲル 勇 イサム 正雄 マサオ 三郎 サブロウ 義雄 ヨシオ 一郎 イチロウ 武 タケシ
勝 マサル 進 ススム 博 ヒロシ 昭 アキラ 実 ミノル 正 タダシ 弘 ヒロシ 勲 イサオ 次郎 ジロウ
和夫 カズオ 幸雄 ユキオ 利夫 トシオ 繁 シゲル 栄一 エイイチ 良一 リョウイチ 忠 タダシ 文雄 フミオ
辰雄 タツオ 喜一 キイチ 昭二 ショウジ 敏夫 トシオ 久雄 ヒサオ 健三 ケンゾウ 信夫 ノブオ
邦夫 クニオ 政雄 マサオ 孝 タカシ
""",
    "M middle": """
誠 マコト 隆 タカシ 修 オサム 豊 ユタカ 剛 ツヨシ 浩二 コウジ 哲也 テツヤ 健二 ケンジ
和彦 カズヒコ 秀樹 ヒデキ 正樹 マサキ 幸一 コウイチ 達也 タツヤ 俊介 シュンスケ 大輔 ダイスケ
健太郎 ケンタロウ 雅彦 マサヒコ 伸一 シンイチ 敏明 トシアキ 義之 ヨシユキ 賢治 ケンジ 徹 トオル
聡 サトシ 勉 ツトム 康夫 ヤスオ 克己 カツミ 光男 ミツオ 昌弘 マサヒロ 直之 ナオユキ 孝之 タカユキ
浩一 コウイチ 学 マナブ 和博 カズヒロ 純一 ジュンイチ 竜也 タツヤ 信也 シンヤ
""",
    "M young": """
大翔 ヒロト 蓮 レン 悠斗 ユウト 陽翔 ハルト 翔 ショウ 大輝 ダイキ 海斗 カイト 健太 ケンタ
拓也 タクヤ 優太 ユウタ 駿 シュン 颯太 ソウタ 樹 イツキ 湊 ミナト 陸 リク 航 ワタル 亮太 リョウタ
涼太 リョウタ 悠真 ユウマ 匠 タクミ 隼人 ハヤト 圭吾 ケイゴ 雄大 ユウダイ 一樹 カズキ 諒 リョウ
瑛太 エイタ 奏 カナデ 朝陽 アサヒ 律 リツ 蒼 アオイ 和真 カズマ 隆之介 リュウノスケ 晴斗 ハルト
光 ヒカル
""",
    "F old": """
和子 カズコ 幸子 サチコ 節子 セツコ 文子 フミコ 静子 シズコ 千代子 チヨコ 久子 ヒサコ
美代子 ミヨコ 敏子 トシコ 初枝 ハツエ キヨ キヨ ハル ハル 芳子 ヨシコ 光子 ミツコ 登美子 トミコ
八重子 ヤエコ 信子 ノブコ 正子 マサコ 弘子 ヒロコ 栄子 エイコ 澄子 スミコ 富子 トミコ 礼子 レイコ
トシ子 トシコ 房子 フサコ 照子 テルコ 春江 ハルエ 君子 キミコ ヨシエ ヨシエ 貞子 サダコ
勝子 カツコ 悦子 エツコ ミサヲ ミサオ 綾子 アヤコ
""",
    "F middle": """
恵子 ケイコ 裕子 ユウコ 由美子 ユミコ 久美子 クミコ 智子 トモコ 真由美 マユミ 洋子 ヨウコ
純子 ジュンコ 美穂 ミホ 典子 ノリコ 順子 ジュンコ 京子 キョウコ 真理子 マリコ 理恵 リエ 美香 ミカ
由香里 ユカリ めぐみ メグミ 恵美 エミ 奈緒美 ナオミ 弥生 ヤヨイ 友子 トモコ 麻衣子 マイコ
千春 チハル 美紀 ミキ 優子 ユウコ 博美 ヒロミ 雅子 マサコ 和美 カズミ 朋子 トモコ 幸恵 ユキエ
ひとみ ヒトミ 香 カオリ 千恵子 チエコ 直美 ナオミ
""",
    "F young": """
葵 アオイ 陽菜 ヒナ 美咲 ミサキ さくら サクラ 結菜 ユナ 凛 リン 莉子 リコ 愛 アイ 彩 アヤ
七海 ナナミ 遥 ハルカ 萌 モエ 優花 ユウカ 美月 ミツキ 千尋 チヒロ 楓 カエデ 咲良 サクラ 未来 ミク
杏 アン 紗希 サキ 菜々子 ナナコ 琴音 コトネ 芽衣 メイ 心春 コハル 真央 マオ 花音 カノン
詩織 シオリ 彩香 アヤカ 瑞希 ミズキ 綾音 アヤネ 里奈 リナ 沙織 サオリ 美桜 ミオ 日菜子 ヒナコ
""",
}
_OLD_BEFORE, _MIDDLE_BEFORE = 1950, 1980


@dataclass(frozen=True)
class NameTable:
    """Names, and the share of people who carry each (0-1, summing to 1)."""

    names: tuple[NamePart, ...]
    shares: tuple[float, ...]
    totals: tuple[float, ...]

    def picked(self, number: int) -> NamePart:
        """Return the name of a drawn number of 64 bits."""
        return self.names[bisect_right(self.totals, number / 2**64, hi=len(self.names) - 1)]


def time_of(birth_year: int) -> str:
    """Return the time of birth by which given names differ: "old", "middle" or "young"."""
    if birth_year < _OLD_BEFORE:
        return "old"
    return "middle" if birth_year < _MIDDLE_BEFORE else "young"


@functools.cache
def surnames() -> NameTable:
    """Return all surnames: Faker's with its weights, then the others as 1 / rank."""
    from faker.providers.person.ja_JP import Provider

    weights = {NamePart(*names): float(n) for names, n in Provider.last_name_pairs.items()}
    n_faker, least = len(weights), min(weights.values())
    known = {part.written for part in weights}
    for rank, part in enumerate(_parts(_SURNAMES), start=n_faker + 1):
        if part.written not in known:
            weights[part] = least * n_faker / rank
    return _table(weights)


@functools.cache
def given_names(sex: str, time: str) -> NameTable:
    """Return the given names of a sex and time of birth: Faker's and ours, all as likely."""
    from faker.providers.person.ja_JP import Provider

    pairs = Provider.first_name_male_pairs if sex == "M" else Provider.first_name_female_pairs
    parts = {NamePart(*names).written: NamePart(*names) for names in pairs}
    for part in _parts(_GIVEN[f"{sex} {time}"]):
        parts.setdefault(part.written, part)
    return _table(dict.fromkeys(parts.values(), 1.0))


def _parts(lines: str) -> list[NamePart]:
    words = lines.split()
    return [
        NamePart(name, kana, romaji_of(kana))
        for name, kana in zip(words[::2], words[1::2], strict=True)
    ]


def _table(weights: dict[NamePart, float]) -> NameTable:
    total = sum(weights.values())
    shares = tuple(weight / total for weight in weights.values())
    return NameTable(tuple(weights), shares, tuple(accumulate(shares)))
