/**
 * Common passwords in lower case: those of 12 characters or more, and the words among the thousand most common.
 * Source: @zxcvbn-ts/language-common 4.1.3. The rest of its 2 MB is not needed here, because it is shorter or rare. MIT License,
 * Copyright (c) 2012-2016 Dan Wheeler and Dropbox, Inc., Copyright (c) 2021 @zxcvbn-ts.
 */
export const commonPasswords: ReadonlySet<string> = new Set(
  `
  010203040506 012345678910 014702580369 01telemike01 050605rostik 102030405060 1111111111zz 111222333000
  111222333444555 112233445566 122333444455555 123321456654 123321qweewq 123456654321 12345677654321 123456782000
  1234567887654321 123456789000 12345678900987654321 123456789012 1234567890987654321 1234567890qaz 1234567890qw
  1234567890qwe 1234567890zzz 123456789101 123456789123 1234567892000 12345678987654321 123456789987654321 123456789aaa
  123456789abc 123456789asd 123456789qaz 123456789qqq 123456789qwe 123456789zxc 1234qwerasdf 1234qwerasdfzxcv
  123ewqasdcxz 159753456852 193570356033 19960610ilja 1a2a3a4a5a6a 1qa2ws3ed4rf 1qa2ws3ed4rf5tg 1qaz2wsx3edc4rfv
  1qazxsw23edc 1qazxsw23edcvfr4 23176djivanfros 23wkoa0fp78dk 31217221027711 32615948worms 41d8cd98f00b 420842084208555
  4815162342lf 4815162342lost 541233432442 59382113kevinp 6215mila6215 742617000027 89063032220m 89231243658s
  89876065093rax 89semtsriuty abc123456789 abcd access accord action adidas admin administrator adrian airborne airplane
  aksjdlasdakj89879 alabama alaska albert alex alexande alexander alexandr alexis alicia alison allison alpha alyssa
  amadeusptfcor amanda amber america american an83546921an13 anderson andre andrea andrew andrewjackie andrey angel
  angela angels animal anna antananarivu anthony antonio anytimetoday apollo apple apples arizona arnold arsenal arthur
  asdasd asdf asdfasdf asdfg asdfgh asdfghjk asdfghjkl ashley asshole assman auckland2010 august austin avalon avatar
  avrillavigne awesome azerty baby babygirl badass badboy badger badiman28200 bailey bambam banana bandit barbara barney
  baseball basketball bastard batman baxter bear beatles beaver beavis beer benjamin berlin bhrh0h2oof6xbqjeh bigboy
  bigcock bigdaddy bigdick bigdog bigman bigred bigtits bill billy billybob birdie bishop bitch bitches biteme black
  blacksonblon blazer blink blizzard blowjob blowme bltynbabrfwbz blue bobby bollocks bond bondage bonnie boobies booboo
  boobs booger boogie boomer boston boy4u2ownnyc bpgjldsgjldthnf bradley brandon brandy braves brazil brenda brian
  britney brittany bronco broncos brooke brooklyn brother brutus bubba bubbles buddha buddy budlight buffalo bulldog
  bulldogs bullet bullnuts2003 bullshit burton business businessbabe buster butter butthead caesar calvin camaro cameron
  canada candy captain cardinal carlos carmen carolina caroline carrie carter cartman casper cassie catch celtic
  champion chance changeme charles charlie cheese cheeseburger chelsea cherokee cherry chester chesterfield chevelle
  chevy cheyenne chicago chicken chickenwing101 chocolat chopper chris christ christin christopher1 chronic civilization
  cjdthitycndj cjkysirj claire classic claudia cnfc35762209 cobra cocacola cock coffee college colorado combat123654
  compaq computer configuratio connie connor construction contortionist cookie cool cooper copper corperfmonsy corvette
  cosmopolitan cougar counterstrike courtney cowboy cowboys crazy creative cricket crystal cumshot cunt daddy dakota
  dallas dancer danger daniel danielle darkness darkside dave david death debbie december denise dennis denver destiny
  detroit devilmaycry4 devils dexter diablo diamond dick dickhead diesel digger digital digitalprodu disney dkflbvbhjdbx
  dkflbvbhjdyf doctor doggie dolphin dolphins domainlock2005 domino donald donkey douglas dragon dreamer dreams driver
  drowssap drummer ducati duncan eagle eagles eclipse edward edwardcullen einstein electric elephant elizabet elvis
  eminem empire england enigma enter entertainment eric eugene everton explorer extreme falcon family fantasy
  fatima753357 fender ferrari finalfantasy findaupair007 fire firebird fireman fish fisher fishing fkmnthyfnbdf
  fktrcfylh fktrcfylhjdbx fktrcfylhjdf fktrcfylhjdyf florida flower flowers fluffy flvbybcnhfnjh flyers football ford
  forest forever foreveryoung france francis frank frankie franklin fred freddy frederiksberg free freedom freepass
  freeuser friday friend friends froggy fuck fucker fucking fuckme fuckoff fucktheworld fuckyou fuckyoubitch fyfcnfcbz
  fylhtq fynfyfyfhbde gabriel galina galore gandalf garcia garfield gateway gators gemini general genesis genius george
  georgia gfhfktkjuhfv gfhjkm ghbdtn ghbdtnrfrltkf ghhh47hj7649 ghjatccbjyfk ghjcnjgbpltw ghjcnjgfhjkm ghjcnjqgfhjkm
  ghjcnjrdfibyj ghjnbdjcnjzybt ghtdtlvtldtl giants gibson ginger girls gjkysqgbpltw goblue godzilla golden golf golfer
  goober good google gordon gracie green greenday greenlantern gregory gthtrfnbgjkt gtnhjpfdjlcr guinness guitar gundam
  gunner hammer hannah happy hard hardcore hardon harley hawaii hd764nw5d7e1vb1 hd764nw5d7e1vbv heather heaven
  hedimaptfcor hellfire hello helpme hendrix hentai hercules hiphop hitman hobbes hockey holiday homer honda honey
  hooters horney horny horse horses hotdog hotrod house houston howard hummer hunter iampurehaha2 iceman iloveboobies
  ilovemyfamily iloveyou indian infinity ingodwetrust installdevic installsqlst intelligence international internet
  ipo54tj45uy856 ireland ironman iseedeadpeople iwantu jack jackass jackie jackson jaguar jake james jamesbond007
  jasmine jason jasper jeffrey jennifer jeremy jessica jessie jester jesus jimmy john johnny johnson jonathan jordan
  joseph josephphone7 joshua junior jupiter justice justin justinbieber juventus karina katana kawasaki kelly kenneth
  kermit kevin killer kimberly king kirill kitten kitty klaster knight kodiak kramer kristen kristina ktjynsq40147
  lacrosse lakers lasvegas lauren lawrence leather leavemealone legend leslie letmein lhbjkjubz2957704 liberty lifehack
  lincoln little liverpoo liverpool lizard logitech london lost4815162342 louise love lovelove lovely loveme lover
  loverboy lovers loveyou lucky lytdybrbdfvgbhf lytghjgtnhjdcr maddog madison madmax madonna maggie magic magnum
  mailcreated5240 maksim manutd maprchem56458 marcus maria marina marine marines mark marlboro marley marshall martin
  marvin maryjane massimiliano master masterbaiting masterbating masturbation matrix matt matthew maurolarastefy
  maverick maximus maxwell melanie melissa member mercedes mercury merlin metallic metallica mevefalkcakk mexico michael
  michaeljackson michelle michigan mickey midnight mike miller mine minecraft minnesota_hp mitchell molly
  momsanaladventure monday money monica monkey monster montana mookie morgan morganstanley mortalkombat mother
  motherfucker motorola mountain mozart msoracle32re msorcloledbr muffin murphy music mustang naruto nascar nastya
  natalie natasha nathan naughty nccd ne_e_pod_chehyl necronomicon needforspeed nelson nemesis nemvxyheqdd5oqxyxyzi
  networkingpe newport newproject2004 newyork nhbujyjvtnhbz nhecsyfujkjdt nhfdvfnjkju123 nhfycajhvths nicholas
  nick1234-rem936 nicole nightcrawler nikita nintendo nirvana nissan nondriversig norman nothing november
  ntktdbpjh1994 october oksana olcrackmaster oliver olivia online ontheoutside orange outlaw p030710p$e4o packers
  pakistan pamela pandora pantera panther panthers panties panzer paradise paraklast1974 parker pass passion passport
  password passwordassword passwordpassword passwordstandard passwrd patches patricia patrick patriots paul peaches
  peanut peanutbutter pearljam peekaboo penguin penis people pepper perfect peter pfqwtd27121988 phantom philadelphia
  phoenix phpbb picard pickle pimpin pirate platinum playboy player playstation2 playstation3 please pokemon police
  polina polniypizdec0211 polniypizdec1102 polniypizdec110211 pontiac poohbear pookie poop poopoo popcorn porn porno
  pornographic porsche power predator pretty prince princess private professional psycho ptybnxtvgbjy pumpkin
  punksnotdead purple pussy pussycat qawsedrftgyh qazwsx qazwsxedc qazwsxedcrfv qazwsxedcrfvtgb qazxsw qazxswedc123
  qazxswedcvfr qwaszx qwaszxerdfcv qweasd qweasdzxc qweqwe qwer qwerasdfzxcv qwert qwertasdfgzxcvb qwerty qwertyasdfgh
  qwertyu qwertyui qwertyuiop qwertyytrewq rabbit rachel racing raider raiders rainbow ranger rangers raptor rascal
  rasdzv raymond razz rebecca reddog redhead redrum redskins redsox redwings reggie residentevil rfnthbyf1988 richard
  robbie robert rock rocket rocky roland rolltide ronald ronaldinho10 ronaldo rooster rosebud runner rush ruslan russell
  russia sabrina saints samantha sammy samson samsung samuel sandman sandra sanfrancisco sarah satisfaction saturn
  saun24865709 scandinavian scarface school schoolgirlie scooby scooter scorpio scorpion scotland scott scotty
  sdicmt7seytn secret security seemnemaailm semperfi serega sergey sexsex sexy shadow shaggy shannon sharon shelby shit
  shithead shorty sierra silver simon simone simple simpson simpsons skipper skippy skyline slayer slipknot slut smith
  smokey smooth snickers sniper snoopy snowball snowman soccer softball sojdlg123aljg sonnenschein sonyericsson sophie
  spanky sparky specialinsta speedy spencer spider spiderma spiderman spirit spitfire spooky sports spring stalker
  stanley star stargate startrek starwars steelers stella stephen sterling steve steven stickdaddy77 stingray stinky
  stinkyfinger stratocaster stupid sublime success sucker suckit suckme summer sunset sunshine super superman
  supernatural surfer suzuki svetlana sweet swordfis sydney system systemofadown tarheels taurus taylor temppassword
  tennis teresa test tester testing thecakeisalie theman therock thomas thumper thunder ticketmaster tiffany tiger
  tigers tigger time timothy tinker titanic tits tomcat tommy topgun toyota transformers travis trevor trinity trouble
  trustno tucker turkey turtle tweety unbelievable united usuckballz vagina valentin vampire vanessa vanyarespekt vegeta
  veronica vfhbyf vfrcbv vfvfvskfhfve victor victoria victory viking vikings vincent viper virginia vision vladimir
  vladimirovna voodoo voyager walker walter wanker warcraft warhammer40k warrior water wazzkaprivet websolutions
  websolutionssu webuivalidat weihnachtsbau weihnachtsbaum welcome westside whatever whosyourdaddy wildcat wildcats
  william williams willie willow wilson windows winner winston winter wizard wolf wolfpack wolverin wolves wombat xavier
  xxxp455w0rd5 yamaha yankee yankees yellow yfnfif zachary zaq12wsxcde3 zaq1xsw2cde3 zaqwsx zaqwsxcderfv zcfvfzkexifz
  zeppelin zombie zqjphsyf6ctifgu zxcasdqwe123 zxcvbn zxcvbnm zxcvbnmmnbvcxz
  `
    .trim()
    .split(/\s+/),
);
