"""Language codes of translation models by ISO 639-3 code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.errors import HarnessError

_FLORES = (
    "afr_Latn als_Latn amh_Ethi arb_Arab azj_Latn bel_Cyrl ben_Beng bos_Latn bul_Cyrl cat_Latn ces_Latn cym_Latn "
    "dan_Latn deu_Latn ell_Grek eng_Latn epo_Latn est_Latn eus_Latn fin_Latn fra_Latn gle_Latn glg_Latn guj_Gujr "
    "heb_Hebr hin_Deva hrv_Latn hun_Latn hye_Armn ind_Latn isl_Latn ita_Latn jpn_Jpan kan_Knda kat_Geor kaz_Cyrl "
    "khk_Cyrl khm_Khmr kor_Hang lit_Latn lvs_Latn mal_Mlym mar_Deva mkd_Cyrl mlt_Latn mya_Mymr nld_Latn nob_Latn "
    "npi_Deva pan_Guru pbt_Arab pes_Arab pol_Latn por_Latn prs_Arab ron_Latn rus_Cyrl sin_Sinh slk_Latn slv_Latn "
    "som_Latn spa_Latn srp_Cyrl swe_Latn swh_Latn tam_Taml tel_Telu tgl_Latn tha_Thai tur_Latn ukr_Cyrl urd_Arab "
    "uzn_Latn vie_Latn xho_Latn zho_Hans zsm_Latn zul_Latn"
)
_MBART = (
    "afr:af_ZA arb:ar_AR azj:az_AZ ben:bn_IN ces:cs_CZ deu:de_DE eng:en_XX est:et_EE fin:fi_FI fra:fr_XX glg:gl_ES "
    "guj:gu_IN heb:he_IL hin:hi_IN hrv:hr_HR ind:id_ID ita:it_IT jpn:ja_XX kat:ka_GE kaz:kk_KZ khk:mn_MN khm:km_KH "
    "kor:ko_KR lit:lt_LT lvs:lv_LV mal:ml_IN mar:mr_IN mkd:mk_MK mya:my_MM nld:nl_XX npi:ne_NP pbt:ps_AF pes:fa_IR "
    "pol:pl_PL por:pt_XX ron:ro_RO rus:ru_RU sin:si_LK slv:sl_SI spa:es_XX swe:sv_SE swh:sw_KE tam:ta_IN tel:te_IN "
    "tgl:tl_XX tha:th_TH tur:tr_TR ukr:uk_UA urd:ur_PK vie:vi_VN xho:xh_ZA zho:zh_CN"
)
# Macrolanguages, which topics may use as their language, and the member language of each in the models.
_MEMBERS = "ara:arb aze:azj fas:pes lav:lvs mon:khk msa:zsm nep:npi nor:nob pus:pbt sqi:als swa:swh uzb:uzn"
_MEMBER = dict(pair.split(":") for pair in _MEMBERS.split())


def _with_macrolanguages(codes: dict[str, str]) -> Mapping[str, str]:
    return MappingProxyType(codes | {macro: codes[member] for macro, member in _MEMBER.items() if member in codes})


NLLB = _with_macrolanguages({code[:3]: code for code in _FLORES.split()})
MBART = _with_macrolanguages(dict(pair.split(":") for pair in _MBART.split()))
# Languages that mBART-50 lacks, and the related languages that CrossMath's scripts use for them.
RELATED: Mapping[str, str] = MappingProxyType({"cat": "es_XX", "kan": "hi_IN", "pan": "hi_IN", "slk": "cs_CZ"})


def code(language: str, known: Mapping[str, str], translator: str, verb: str = "reads") -> str:
    """Returns a translator's code of a language.

    Raises
    ------
    HarnessError
        The translator does not have the language; the message lists its languages.

    Examples
    --------
    >>> code("pes", NLLB, "nllb")
    'pes_Arab'
    """
    if language not in known:
        raise HarnessError(
            f"translator {translator}: {verb} no language {language!r}; known: {', '.join(sorted(known))}"
        )
    return known[language]
